#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/events.h"
#include "serve/service.h"

namespace lathe::serve {

struct RemoteFrontEndOptions {
  std::string url;      ///< "http://HOST:PORT"
  std::string token;    ///< empty: none is sent
  std::string machine;  ///< this one's name, for the front end's logs and metrics
};

/// A front end on another machine, to the WorkerPool of this one what a Service is: it carries the
/// workers' messages there and back over HTTP, and tries again while the front end does not answer.
/// Leases are given their own numbers here, so that an answer under a lease of a session that is
/// over is known and dropped. A worker process that is silent is ended here; workers whose session
/// is over stop what they do and begin another one.
class RemoteFrontEnd : public WorkerSink {
 public:
  /// `events` must outlive it. Errors: kInvalid for a URL that is none.
  static Result<std::unique_ptr<RemoteFrontEnd>> make(RemoteFrontEndOptions options, EventSink& events);
  /// Waits some seconds for what the front end is still to be told.
  ~RemoteFrontEnd() override = default;

  /// Workers take no more work.
  virtual void drain() = 0;
  virtual bool is_idle() const = 0;  ///< nothing is in hand, and the front end has every answer
  /// Why the front end has refused the workers where it has never taken one: another version, a
  /// wrong token. Who was taken once is refused for a while at most, and tries again.
  virtual std::optional<Error> refusal() const = 0;
};

}  // namespace lathe::serve
