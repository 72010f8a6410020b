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
  std::string bytes;  ///< empty unless reply.ok; untrusted
};

/// Persistent jailed compile workers, at most one per processor. Thread-safe.
class CompilePool {
 public:
  /// `program` and `args` start a worker that answers each CompileJob with a CompileReply. It runs
  /// on `processors` only, where there are any.
  CompilePool(std::string program, std::vector<std::string> args, std::vector<int> processors = {});

  /// Errors are the machine's fault, never the source's, or kCancelled, which kills the worker.
  Result<CompiledObject> run(const protocol::CompileJob& job, const CancelToken& cancel);

 private:
  Result<CompiledObject> run_on(HelperProcess worker, const protocol::CompileJob& job,
                                const CancelToken& cancel);

  std::string program_;
  std::vector<std::string> args_;
  std::vector<int> processors_;
  int most_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int busy_ = 0;
  std::vector<HelperProcess> idle_;
};

}  // namespace lathe
