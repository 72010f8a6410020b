#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"
#include "record/experience.h"

namespace lathe::train {

/// Where an answer comes from, as its Experience has it. Supervised training reads none of it;
/// estimators that weigh answers do.
struct Origin {
  std::int64_t experience = 0;
  std::string run;
  std::int64_t sequence = 0;
  std::string task_name;
  Digest task;
  Digest candidate;
  Lineage lineage;
  std::optional<Generation> generation;  ///< blobs by name only
  std::optional<Verdict> verdict;
};

/// A prompt and its answer, as a model is trained on them.
struct Example {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;
  std::vector<float> weights;    ///< of each answer token in the loss; 0: not counted
  std::vector<float> log_probs;  ///< of each answer token when it was sampled; empty: unknown
  Origin origin;

  std::int64_t length() const { return static_cast<std::int64_t>(prompt.size() + answer.size()); }
  double total_weight() const;
};

/// How texts become tokens. Without a tokenizer only token ids are taken.
struct TextCoding {
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;  ///< a prompt is the user's message; without it, text goes in as it is
  std::string system;                ///< the system's message; empty: what the template says by itself
};

/// From one line of a data file (docs/training.md). The answer's text gets the token that ends a
/// turn. Errors: kInvalid, naming the field.
Result<Example> example_from_json(const nlohmann::json& line, const TextCoding& coding);

struct DataLimits {
  std::int64_t vocab = 0;
  std::int64_t most_tokens = 0;  ///< of prompt and answer; longer examples are left out
};
struct Dataset {
  std::vector<Example> examples;
  std::int64_t too_long = 0;   ///< left out
  std::int64_t uncounted = 0;  ///< left out: no token with a weight
  Digest digest;               ///< of all tokens and weights in order
};
/// All lines of a JSON Lines file. Errors name file and line.
Result<Dataset> read_dataset(const std::string& path, const TextCoding& coding, const DataLimits& limits);

}  // namespace lathe::train
