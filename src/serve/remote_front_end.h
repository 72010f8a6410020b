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
  std::string machine;  ///< name of this machine, for the front end's logs and metrics
};

/// Stands in for the Service of another machine towards this machine's WorkerPool: it carries the
/// workers' messages both ways over HTTP, and retries while the front end does not answer. Leases
/// are renumbered here, so that an answer under a lease of an earlier session is recognised and
/// dropped. Silent worker processes are killed here; workers whose session has ended drop their
/// work and join a new one.
class RemoteFrontEnd : public WorkerSink {
 public:
  /// `events` must outlive it. Errors: kInvalid for a malformed URL or token.
  static Result<std::unique_ptr<RemoteFrontEnd>> make(RemoteFrontEndOptions options, EventSink& events);
  /// Waits a few seconds for messages to the front end that are still to be sent.
  ~RemoteFrontEnd() override = default;

  /// Workers accept no more work.
  virtual void drain() = 0;
  virtual bool is_idle() const = 0;  ///< no worker has an evaluation, and the front end has every answer
  /// Why the front end refuses the workers, if it has never accepted one: another version, a wrong
  /// token. After one was accepted, a refusal is taken as temporary and retried.
  virtual std::optional<Error> refusal() const = 0;
};

}  // namespace lathe::serve
