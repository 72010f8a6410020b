#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "candidate/candidate.h"
#include "candidate/dialect.h"

namespace lathe {

/// A peer that kernels are compared with. It is an ordinary candidate, built, verified and timed
/// like any other.
struct Baseline {
  std::string name;  ///< "naive" or a library's: "onednn", "cudnn"
  Candidate candidate;
};

/// The naive build: one loop nest per node, intermediates in scratch buffers, compiled with -O3
/// -march=native. Every op has an emitter. The text is parametric in the task's dims. On a GPU each
/// work item becomes a thread.
Result<Candidate> naive_candidate(const TaskSpec& task, Dialect dialect = Dialect::kCpu);

/// The names of the peers that make_baselines() makes.
std::vector<std::string> baseline_names(const TaskSpec& task, Dialect dialect = Dialect::kCpu);

/// The naive build and, for each library that implements at least one node of the task, a candidate
/// whose `node` steps use it (fused where the library has the fused primitive) and whose other
/// nodes are naive. Restricted to task.baselines if that is not empty; the naive build is always
/// there and comes first.
Result<std::vector<Baseline>> make_baselines(const TaskSpec& task, Dialect dialect = Dialect::kCpu);

}  // namespace lathe
