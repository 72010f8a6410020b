#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "record/experience.h"

namespace lathe {

/// Answers of one turn, or of all.
struct AnswerCounts {
  int answers = 0;
  int readable = 0;  ///< held a candidate
  int built = 0;
  int correct = 0;
  double best = 0;  ///< speedup over the best peer; 0: none is correct
};

/// What a model wrote in a run and what that cost. Confirmations are left out.
struct ModelSummary {
  AnswerCounts all;
  double prompt_tokens = 0, answer_tokens = 0;
  double seconds = 0;  ///< of waiting for answers, those side by side counted each
  double usd = 0;
  std::vector<AnswerCounts> turns = {};  ///< of conversations, by turn; empty for other searches
  /// Of conversations, seen from their last turn and from their best one: how many gave a correct
  /// kernel, and how many one that is faster than the best peer.
  int conversations = 0;
  int last_correct = 0, last_faster = 0;
  int best_correct = 0, best_faster = 0;

  bool exists() const { return all.answers > 0; }
};

ModelSummary model_summary(const std::vector<Experience>& experiences, const std::string& best_baseline);

/// The field "model" of an optimize document; null where no model wrote anything.
nlohmann::json to_json(const ModelSummary& summary);

/// "12 answers, 9 built, 4 correct; 34100 + 12200 tokens, 85 s of writing, $0.0213".
std::string to_text(const ModelSummary& summary);
/// "last turn: 2 of 4 correct, 1 faster than the best peer; best turn: ..."; empty without
/// conversations.
std::string turns_text(const ModelSummary& summary);

}  // namespace lathe
