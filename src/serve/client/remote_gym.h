#pragma once

#include <memory>
#include <string>

#include "backend/device_record.h"
#include "base/cancel.h"
#include "base/events.h"
#include "gym/evaluator.h"

namespace lathe::serve {

struct RemoteGymOptions {
  std::string url;    ///< of a lathe serve: http://HOST:8320
  std::string token;  ///< empty: none
  /// How long nobody may answer before what is asked ends with kUnavailable.
  double patience_seconds = 300;
  /// After so long without news each unfinished evaluation is asked for: the service may have lost
  /// its store, or what it said was lost.
  double silence_seconds = 20;
  int most_unfinished = 1024;  ///< requests of one client before submit() says kBusy
};

/// The gym of a service (docs/service.md): another machine's devices behind the interface that a
/// gym of this process has. An evaluation's verdict is the service's answer for good: the same text
/// at the same depth is not measured twice. Thread-safe.
class RemoteGym {
 public:
  /// Waits until a worker of the service has measured its device. Errors: kInvalid for a URL, a
  /// token or a service that will not do; kUnavailable where nobody answers; kCancelled.
  static Result<std::unique_ptr<RemoteGym>> connect(RemoteGymOptions options, EventSink& events,
                                                    const CancelToken& cancel);
  virtual ~RemoteGym() = default;

  /// Of one of its workers. Every verdict tells its own device.
  virtual const DeviceRecord& device() const = 0;
  /// Must be destroyed before the gym. Baselines' times are those beside the naive build, which is
  /// submitted as a candidate.
  virtual std::unique_ptr<Evaluator> connect_client() = 0;
};

}  // namespace lathe::serve
