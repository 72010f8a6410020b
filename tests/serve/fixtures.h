#pragma once

#include <string>

#include "serve/evaluation.h"

namespace lathe::serve {

inline Submission make_submission(const std::string& text, const std::string& client = "a") {
  return {.key = {digest_of("task"), digest_of(text), Depth::kScreen, "cpu", "1"},
          .candidate = text,
          .client = client,
          .tag = "tag of " + text,
          .trace = "trace",
          .submitted_unix_ms = 1'700'000'000'000};
}

inline Conclusion make_conclusion(const Submission& submission, Outcome outcome = Outcome::kPass) {
  Conclusion conclusion;
  conclusion.verdict.outcome = outcome;
  conclusion.verdict.reason = "ok";
  conclusion.verdict.depth = submission.key.depth;
  conclusion.verdict.candidate = submission.key.candidate;
  conclusion.verdict.task = submission.key.task;
  return conclusion;
}

}  // namespace lathe::serve
