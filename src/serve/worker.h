#pragma once

#include <functional>

#include "base/cancel.h"
#include "base/events.h"
#include "gym/evaluator.h"
#include "serve/message.h"

namespace lathe::serve {

struct WorkerSetup {
  WorkerHello hello;
  double beat_seconds = 1;
  std::function<double()> busy_seconds = [] { return 0.0; };  ///< of the device so far; called on any thread
  /// Adapts a task to the device before it is evaluated; kInvalid if the device cannot take it.
  std::function<Result<TaskSpec>(TaskSpec)> complete = [](TaskSpec spec) { return spec; };
  /// Measures the device, on a thread of its own, while orders are taken; absent: nobody is told.
  std::function<Result<DeviceRecord>()> measure = {};
  CancelToken stop = {};  ///< once raised, the worker announces that it leaves, and ends
};

/// Serves one front end until it is gone (Ok) or `stop` is raised: takes orders from the stream,
/// has `evaluator` judge them, and answers. What is still under way then is cancelled. Errors: a
/// malformed message.
Status serve_front_end(MessageStream& stream, Evaluator& evaluator, const WorkerSetup& setup,
                       EventSink& events);

}  // namespace lathe::serve
