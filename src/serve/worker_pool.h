#pragma once

#include <memory>
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

/// Keeps worker processes running: one that ends is started again at once, one that can't begin
/// after a pause that grows to half a minute. A crash of one costs what it had in hand some
/// milliseconds.
class WorkerPool {
 public:
  /// `sink` and `events` must outlive it.
  static std::unique_ptr<WorkerPool> start(WorkerSink& sink, std::vector<WorkerProgram> programs,
                                           EventSink& events);
  /// Kills the workers. What they have in hand has not lost them.
  virtual ~WorkerPool() = default;
  /// Workers that have failed to begin several times in a row.
  virtual int quarantined() const = 0;
};

}  // namespace lathe::serve
