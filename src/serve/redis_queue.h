#pragma once

#include <memory>

#include "base/clock.h"
#include "base/events.h"
#include "serve/redis_connection.h"
#include "serve/shared_queue.h"

namespace lathe::serve {

struct RedisQueueOptions {
  RedisUrl url;
  std::string gym_version;   ///< this front end's
  double lease_seconds = 4;  ///< how long a front end may be silent before others take what it holds
  double beat_seconds = 0.5;
};

/// A queue in Redis 6 or later: streams with a consumer group, one stream for each client and
/// priority. Front ends are the consumers; each measures the others' silence by its own monotonic
/// clock, so that no jump of a wall clock ends a lease. The next exchange reopens a lost
/// connection. Warns of settings that may lose the queue: no append-only file, or eviction. Errors:
/// those of RedisConnection::open.
Result<std::unique_ptr<SharedQueue>> open_redis_queue(const RedisQueueOptions& options, const Clock& clock,
                                                      EventSink& events);

}  // namespace lathe::serve
