#pragma once

#include <string>

#include "gym/evaluator.h"

namespace lathe::serve {

/// What a fake worker says of a candidate: it follows from the text, so that whoever knows the text
/// can tell whether a verdict is the right one. A text with "forge" gets one about another
/// candidate, one with "machine_fails" INFRA.
inline Verdict fake_verdict(const EvaluationRequest& request) {
  Verdict verdict;
  verdict.candidate = digest_of(request.text);
  verdict.outcome = verdict.candidate.bytes[0] % 2 ? Outcome::kPass : Outcome::kWrong;
  if (request.text.find("machine_fails") != std::string::npos) verdict.outcome = Outcome::kInfra;
  verdict.reason = verdict.candidate.short_hex();
  verdict.depth = request.depth;
  verdict.task = request.task->digest;
  verdict.stage_seconds["time"] = 0.001;
  if (request.text.find("forge") != std::string::npos) verdict.candidate = digest_of("another");
  return verdict;
}

}  // namespace lathe::serve
