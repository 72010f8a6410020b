#pragma once

#include <memory>

#include "backend/backend.h"
#include "cli/session.h"
#include "gym/evaluator.h"

namespace lathe::cli {

struct JudgeOptions {
  bool inspect_code = false;  ///< as in GymOptions; a service does as it does
};

/// Who judges a verb's candidates: a gym on a device of this machine, or the service that
/// `--device http://HOST:8320` names.
class Judge {
 public:
  /// Takes LATHE_TOKEN, the service's, out of the environment: call it before there are threads.
  /// `events` and `store` must outlive it.
  static Result<std::unique_ptr<Judge>> open(const CommonOptions& options, Store* store, EventSink& events,
                                             const JudgeOptions& more = {});
  virtual ~Judge() = default;

  virtual const DeviceInfo& device() const = 0;
  virtual const DevicePeaks& peaks() const = 0;
  virtual Evaluator& evaluator() = 0;
  /// Of a device of this machine; null where candidates are judged elsewhere.
  virtual DeviceLane* lane() = 0;
  /// A process task with what only its module can say; other tasks as they are.
  virtual Result<TaskSpec> complete(TaskSpec task) = 0;
};

}  // namespace lathe::cli
