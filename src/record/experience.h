#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "record/generation.h"
#include "record/verdict.h"

namespace lathe {

/// How a proposal came to be.
struct Lineage {
  std::vector<Digest> parents;  ///< candidates it was derived from
  std::string policy;           ///< "catalog", "openai:<model>"
  std::string operation;        ///< "random", "mutate", "crossover", "refine"
  std::string description;      ///< what was changed, for people
  std::int64_t branch = -1;     ///< of the run: the conversation or island that it belongs to; -1: none
  std::int64_t turn = 0;        ///< of its branch, from 0
};

/// One row of Lathe's memory: proposal, verdict, lineage, cost. It holds no reward: those are
/// computed from the verdict, so that another one can be tried on the same memory.
struct Experience {
  std::int64_t id = 0;  ///< set by the store
  std::string run;
  std::int64_t sequence = 0;  ///< position in the run: what makes resume exact
  std::string task_name;
  Digest task;
  Digest candidate;
  std::string candidate_text;
  Lineage lineage;
  std::optional<Generation> generation = {};  ///< of proposals that a model wrote
  Verdict verdict;
  double cost_seconds = 0;
  std::int64_t created_unix = 0;
};

/// An evaluation, and how good it is for the search that it belongs to: the lower bound of the
/// speedup over the best peer; 0 for what did not pass.
struct Attempt {
  Experience experience;
  double fitness = 0;
};
using History = std::vector<std::shared_ptr<const Attempt>>;

/// What the earlier attempts are for the author of the next kernel.
enum class HistoryUse {
  kBest,          ///< attempts at the same task, of which the best are shown
  kConversation,  ///< the author's own turns so far, in order
  kExemplars      ///< kernels of different scores, to compare
};

}  // namespace lathe
