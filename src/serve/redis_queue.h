#pragma once

#include <memory>

#include "base/clock.h"
#include "base/events.h"
#include "serve/redis_connection.h"
#include "serve/shared_queue.h"

namespace lathe::serve {

struct RedisQueueOptions {
  RedisUrl url;
  std::string gym_version;   ///< that this front end has
  double lease_seconds = 4;  ///< of a front end's silence, before others take what it holds
  double beat_seconds = 0.5;
};

/// A queue in Redis 6 or later: Streams with a consumer group, one stream for each client and
/// priority. Front ends are the consumers; they know each other's silence by their own clocks, so
/// that no jump of a wall clock ends a lease. A lost connection is made again by the next exchange.
/// Warns of what would lose it: no append-only file, and eviction. Errors: those of
/// RedisConnection::open.
Result<std::unique_ptr<SharedQueue>> open_redis_queue(const RedisQueueOptions& options, const Clock& clock,
                                                      EventSink& events);

}  // namespace lathe::serve
