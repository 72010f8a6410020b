#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/remote_message.h"
#include "serve/service.h"

namespace lathe::serve {

/// Workers that reach this front end over HTTP. A session plays the part of a worker process's
/// socket: it carries the same messages and leaves their meaning to the service. Sessions end with
/// their workers and live in memory only: after a restart of the front end, workers begin new ones.
/// Thread-safe.
class RemoteWorkers {
 public:
  /// `sink` must outlive it. Only workers of `kind` are accepted.
  static std::unique_ptr<RemoteWorkers> make(WorkerSink& sink, WorkerKind kind);
  virtual ~RemoteWorkers() = default;

  /// Returns the session's secret name, which only the client `owner` can use. Errors: kUnavailable
  /// for a worker of another kind or protocol, naming the difference; kBusy if there are too many.
  virtual Result<std::string> join(const std::string& owner, const WorkerJoin& join) = 0;
  /// Takes a worker's messages and returns the number of the last one received; repeated messages
  /// count once. Errors: as for poll(); kInvalid for a malformed body, which ends the session.
  virtual Result<std::int64_t> say(const std::string& owner, const std::string& session,
                                   const std::string& body) = 0;
  /// Calls `done` once with the messages for the worker after number `after`, which acknowledges
  /// that one and all before it: as soon as there is one, or with none after about `seconds`.
  /// Errors: kNotFound if this owner has no such session, kCancelled if the service has ended it.
  using Polled = Result<FrontBatch>;
  virtual void poll(const std::string& owner, const std::string& session, std::int64_t after, double seconds,
                    std::function<void(Polled)> done) = 0;
  /// The worker has ended. Errors: kNotFound.
  virtual Status end(const std::string& owner, const std::string& session, WorkerEnd end) = 0;
};

}  // namespace lathe::serve
