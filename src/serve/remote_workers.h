#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/remote_message.h"
#include "serve/service.h"

namespace lathe::serve {

/// Workers that reach this front end over HTTP. A session is to the service what the socket of a
/// worker process is: the same messages go through it, and all that they mean is the service's.
/// Sessions end with their workers there, and live in memory alone: after a restart of the front
/// end workers begin new ones. Thread-safe.
class RemoteWorkers {
 public:
  /// `sink` must outlive it. Only workers of `kind` are taken.
  static std::unique_ptr<RemoteWorkers> make(WorkerSink& sink, WorkerKind kind);
  virtual ~RemoteWorkers() = default;

  /// The session's name, a secret. `owner`: the client whom alone it answers. Errors: kUnavailable
  /// for a worker of another kind or protocol, which says what is different; kBusy where there are
  /// too many.
  virtual Result<std::string> join(const std::string& owner, const WorkerJoin& join) = 0;
  /// What a worker says; the number of the last message that came. What has come before counts
  /// once. Errors: as for poll(); kInvalid for a body of the wrong form, which ends the session.
  virtual Result<std::int64_t> say(const std::string& owner, const std::string& session,
                                   const std::string& body) = 0;
  /// Calls `done` once with what there is for the worker after message number `after`, which has
  /// arrived with all before it: at once, as soon as there is something, or with nothing after
  /// about so long. Errors: kNotFound for no session of this owner, kCancelled for one that the
  /// service has ended.
  using Polled = Result<FrontBatch>;
  virtual void poll(const std::string& owner, const std::string& session, std::int64_t after, double seconds,
                    std::function<void(Polled)> done) = 0;
  /// The worker has ended. Errors: kNotFound.
  virtual Status end(const std::string& owner, const std::string& session, WorkerEnd end) = 0;
};

}  // namespace lathe::serve
