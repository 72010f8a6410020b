#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct redisContext;
struct redisReply;

namespace lathe::serve {

struct RedisUrl {
  std::string host = "127.0.0.1";
  int port = 6379;
  std::string user = {};
  std::string password = {};
  int database = 0;

  /// "HOST:PORT/DATABASE": what may be shown.
  std::string place() const;
};

/// "redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]". Errors never repeat the text: it may have a
/// password.
Result<RedisUrl> parse_redis_url(std::string_view text);

using RedisCommand = std::vector<std::string>;

/// A reply, owned. Arrays have elements, everything else a text.
class RedisReply {
 public:
  explicit RedisReply(redisReply* reply) : owner_(reply, &release), reply_(reply) {}
  bool is_error() const;
  std::size_t size() const;  ///< of an array; 0 for others
  RedisReply operator[](std::size_t index) const;
  std::string text() const;  ///< of a string, status or error; of a number its digits
  std::int64_t integer() const;

 private:
  RedisReply(std::shared_ptr<redisReply> owner, redisReply* reply)
      : owner_(std::move(owner)), reply_(reply) {}
  static void release(redisReply* reply);

  std::shared_ptr<redisReply> owner_;
  redisReply* reply_;
};

/// One connection, whose commands go out together and whose replies come back together. After an
/// error it is of no more use. Not thread-safe.
class RedisConnection {
 public:
  /// Errors: kUnavailable, where the server does not answer or refuses.
  static Result<std::unique_ptr<RedisConnection>> open(const RedisUrl& url);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;

  /// Errors: kIo for a lost connection and for any command that failed.
  Result<std::vector<RedisReply>> run(std::span<const RedisCommand> commands);
  Result<RedisReply> run(RedisCommand command);
  /// What the server sends unasked, after a SUBSCRIBE; waits at most so long. Errors: kIo.
  Result<std::vector<RedisReply>> listen(double seconds);

 private:
  RedisConnection(redisContext* context, std::string place) : context_(context), place_(std::move(place)) {}
  Error lost() const;
  redisContext* context_;
  const std::string place_;
};

}  // namespace lathe::serve
