#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "backend/compile_job.h"
#include "base/cancel.h"
#include "sandbox/process.h"

namespace lathe {

struct CompiledObject {
  protocol::CompileReply reply;
  std::string bytes;  ///< empty unless reply.ok; not to be trusted
};

/// Compile jails: a persistent jailed worker for each concurrent build, as many as this process may use
/// processors. Thread-safe.
class CompilePool {
 public:
  /// `program` and `args` start a worker, which speaks CompileJob and CompileReply.
  CompilePool(std::string program, std::vector<std::string> args);

  /// An Error is the machine's fault, or kCancelled: then the worker is killed.
  Result<CompiledObject> run(const protocol::CompileJob& job, const CancelToken& cancel);

 private:
  Result<CompiledObject> run_on(HelperProcess worker, const protocol::CompileJob& job,
                                const CancelToken& cancel);

  std::string program_;
  std::vector<std::string> args_;
  int most_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int busy_ = 0;
  std::vector<HelperProcess> idle_;
};

}  // namespace lathe
