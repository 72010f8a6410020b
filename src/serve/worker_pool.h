#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "serve/service.h"

namespace lathe::serve {

/// The descriptor on which a worker program finds its front end.
inline constexpr int kWorkerSocketFd = 3;

struct WorkerProgram {
  std::string name;  ///< stable: "cpu", "cuda:0"
  Command command;
};

/// Keeps worker processes running: one that ends is restarted at once, one that fails to start
/// after a pause that grows to half a minute. A crash delays the worker's evaluations by
/// milliseconds.
class WorkerPool {
 public:
  /// `sink` and `events` must outlive it.
  static std::unique_ptr<WorkerPool> start(WorkerSink& sink, std::vector<WorkerProgram> programs,
                                           EventSink& events);
  /// Kills the workers; this does not count against the evaluations that they have.
  virtual ~WorkerPool() = default;
  /// Workers that have failed to start several times in a row.
  virtual int quarantined() const = 0;
  /// Once every worker has failed to start several times in a row, and none has ever started: this
  /// machine does not have what they were told to use, and waiting will hardly help.
  virtual std::optional<Error> hopeless() const = 0;
};

}  // namespace lathe::serve
