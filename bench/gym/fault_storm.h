#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe {

struct StormOptions {
  std::int64_t evaluations = 1'000'000;
  std::uint64_t seed = 1;
  int lanes = 2;
};

/// What became of a storm's requests.
struct StormReport {
  std::int64_t submitted = 0, answered = 0;
  std::map<std::string, std::map<std::string, std::int64_t>> answers;  ///< [what was scripted][answer]
  /// Answers that the script forbids, and requests with none or several; at most some dozens.
  std::vector<std::string> faults;
  std::int64_t fault_count = 0;
};

/// Evaluates scripted candidates on a gym over a fake device on which much goes wrong at random:
/// right and wrong kernels, crashes, hangs, builds and processes that fail, blocks that the machine
/// loses, times at which nothing runs, requests that are cancelled, late or unreadable, and clients
/// that leave. Every request must be answered once, and with what its script admits:
///
/// - a wrong kernel never passes; a right one is never WRONG, TAMPERED, CRASH or TIMEOUT;
/// - a failure of the machine is a candidate's CRASH only if it comes again and again with that
///   candidate,
///   while the naive build runs.
Result<StormReport> run_storm(const StormOptions& options);

}  // namespace lathe
