#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "record/verdict.h"

namespace lathe::serve::kernelgym {

/// What a client of KernelGYM's is told of one evaluation.
struct Answer {
  std::string task_id;
  std::string id;     ///< of the evaluation
  std::string state;  ///< as Lathe names it: "done", ...
  std::string error;  ///< of "failed"
  std::optional<Verdict> verdict;
  std::string feedback;
  std::int64_t submitted_unix_ms = 0, finished_unix_ms = 0;
  bool verbose = true;
  int correct_trials = 0;
  std::vector<std::string> notes;

  /// Whether the machine has failed: then there is no answer yet, and the client is to ask again.
  bool is_retry() const;
};

/// The body of /evaluate and /results. Numbers and judgements are null where nothing is known.
nlohmann::json evaluation_json(const Answer& answer);
/// The body of /status.
nlohmann::json status_json(const Answer& answer);
/// "pending", "processing", "completed", "failed", "timeout".
std::string status_of(const Answer& answer);

/// A body that says what is wrong: `code` is one of KernelGYM's, "VALIDATION_ERROR".
nlohmann::json error_json(const std::string& code, const std::string& message,
                          const std::string& task_id = {});
std::string iso_time(std::int64_t unix_ms);

}  // namespace lathe::serve::kernelgym
