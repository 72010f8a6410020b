#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe::serve::kernelgym {

inline constexpr std::size_t kMaxTaskIdBytes = 100;
inline constexpr std::size_t kMaxCodeBytes = 100'000;
inline constexpr std::size_t kMaxBatch = 100;

/// One evaluation as KernelGYM's clients ask for it, in the terms of Lathe's own interface.
struct Request {
  std::string task_id;
  nlohmann::json evaluation;  ///< the body of a POST to /v1/evaluations
  bool verbose = true;        ///< errors with their tracebacks
  bool timed = true;          ///< the client wants a speedup
  int correct_trials = 0;     ///< at least
  /// Of fields that are understood in another way than KernelGYM's, one sentence each.
  std::vector<std::string> notes;
};

/// Where the service's candidates compute.
enum class Computes { kOnProcessor, kOnGpu };

/// Errors: kInvalid, which names the field and says why it is refused; a field is honoured, noted
/// or refused, never dropped (docs/kernelgym.md has all of them). `node` is untrusted.
Result<Request> parse_request(const nlohmann::json& node, Computes where);

/// A batch: its requests are parsed one by one, for each is answered by itself.
struct BatchRequest {
  std::string batch_id;
  std::vector<Result<nlohmann::json>> tasks;
};
Result<BatchRequest> parse_batch(std::string_view body);

}  // namespace lathe::serve::kernelgym
