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
  std::function<double()> busy_seconds = [] { return 0.0; };  ///< of the device; any thread
  /// What a device does to a task before it is evaluated: kInvalid where it cannot have it.
  std::function<Result<TaskSpec>(TaskSpec)> complete = [](TaskSpec spec) { return spec; };
  CancelToken stop = {};  ///< once raised, the worker says that it leaves, and ends
};

/// Serves one front end until it is gone (Ok) or `stop` is raised: takes orders from the stream,
/// has `evaluator` judge them, answers. What is under way then is cancelled. Errors: a message of
/// the wrong form.
Status serve_front_end(MessageStream& stream, Evaluator& evaluator, const WorkerSetup& setup,
                       EventSink& events);

}  // namespace lathe::serve
