#include "serve/redis_connection.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/time.h>

#include <charconv>
#include <optional>

#include "serve/url_scheme.h"

namespace lathe::serve {
namespace {

constexpr timeval kConnectTime{1, 0};
constexpr timeval kReplyTime{2, 0};

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    int byte = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto [end, code] = std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
    if (code != std::errc() || end != text.data() + i + 3) return std::nullopt;
    decoded.push_back(static_cast<char>(byte));
    i += 2;
  }
  return decoded;
}

bool parse_number(std::string_view text, int most, int& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size() && number >= 0 && number <= most;
}

}  // namespace

std::string RedisUrl::place() const { return fmt::format("{}:{}/{}", host, port, database); }

Result<RedisUrl> parse_redis_url(std::string_view text) {
  const Error wrong =
      invalid("the URL of --queue is not one of Redis",
              "write redis://:PASSWORD@HOST:PORT/DATABASE, with %40 for an @ in the password");
  const std::string scheme = url_scheme(text);
  if (scheme == "postgres" || scheme == "postgresql")
    return invalid("--queue is a Redis; PostgreSQL is the store", "give the postgres:// URL to --store");
  if (scheme == "rediss")
    return Error{ErrorCode::kUnavailable, "Lathe speaks to Redis without TLS",
                 "use redis:// over a tunnel (stunnel, WireGuard)"};
  if (scheme != "redis") return wrong;
  text.remove_prefix(scheme.size() + std::string_view("://").size());
  RedisUrl url;
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    const std::string_view who = text.substr(0, at);
    const std::size_t colon = who.find(':');
    const auto user = percent_decoded(who.substr(0, colon));
    const auto password =
        percent_decoded(colon == std::string_view::npos ? std::string_view() : who.substr(colon + 1));
    if (!user || !password) return wrong;
    url.user = *user;
    url.password = *password;
    text.remove_prefix(at + 1);
  }
  if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
    const std::string_view database = text.substr(slash + 1);
    if (!database.empty() && !parse_number(database, 1 << 20, url.database)) return wrong;
    text = text.substr(0, slash);
  }
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos && !text.ends_with(']')) {
    if (!parse_number(text.substr(colon + 1), 65535, url.port)) return wrong;
    text = text.substr(0, colon);
  }
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (!text.empty()) url.host = text;
  return url;
}

bool RedisReply::is_error() const { return reply_->type == REDIS_REPLY_ERROR; }
std::size_t RedisReply::size() const { return reply_->type == REDIS_REPLY_ARRAY ? reply_->elements : 0; }
RedisReply RedisReply::operator[](std::size_t index) const { return {owner_, reply_->element[index]}; }
std::string RedisReply::text() const {
  if (reply_->type == REDIS_REPLY_INTEGER) return std::to_string(reply_->integer);
  return reply_->str ? std::string(reply_->str, reply_->len) : std::string();
}
std::int64_t RedisReply::integer() const {
  if (reply_->type == REDIS_REPLY_INTEGER) return reply_->integer;
  std::int64_t number = 0;
  if (reply_->str) std::from_chars(reply_->str, reply_->str + reply_->len, number);
  return number;
}
void RedisReply::release(redisReply* reply) { ::freeReplyObject(reply); }

Result<std::unique_ptr<RedisConnection>> RedisConnection::open(const RedisUrl& url) {
  redisContext* const context = ::redisConnectWithTimeout(url.host.c_str(), url.port, kConnectTime);
  std::unique_ptr<RedisConnection> connection(new RedisConnection(context, url.place()));
  if (!context || context->err)
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("cannot reach Redis at {}: {}", url.place(), context ? context->errstr : "no memory"),
        "start the server, or correct host and port of --queue"};
  ::redisSetTimeout(context, kReplyTime);
  ::redisEnableKeepAlive(context);
  std::vector<RedisCommand> greeting;
  if (!url.password.empty())
    greeting.push_back(url.user.empty() ? RedisCommand{"AUTH", url.password}
                                        : RedisCommand{"AUTH", url.user, url.password});
  greeting.push_back({"SELECT", std::to_string(url.database)});
  if (const auto replies = connection->run(greeting); !replies.ok()) {
    const std::string& why = replies.error().message;
    const bool is_password = why.find("NOAUTH") != std::string::npos ||
                             why.find("WRONGPASS") != std::string::npos ||
                             why.find("invalid password") != std::string::npos;
    return Error{ErrorCode::kUnavailable, why,
                 is_password ? "put the right password into the URL of --queue: redis://:PASSWORD@HOST:PORT"
                             : "see whether the server is well, and its log"};
  }
  return connection;
}

RedisConnection::~RedisConnection() {
  if (context_) ::redisFree(context_);
}

Error RedisConnection::lost() const {
  return {ErrorCode::kIo, fmt::format("Redis at {} is gone: {}", place_, context_->errstr),
          "it is tried again; start the server or mend the network"};
}

Result<std::vector<RedisReply>> RedisConnection::run(std::span<const RedisCommand> commands) {
  for (const RedisCommand& command : commands) {
    std::vector<const char*> words;
    std::vector<std::size_t> lengths;
    for (const std::string& word : command) {
      words.push_back(word.data());
      lengths.push_back(word.size());
    }
    if (::redisAppendCommandArgv(context_, static_cast<int>(words.size()), words.data(), lengths.data()) !=
        REDIS_OK)
      return lost();
  }
  std::vector<RedisReply> replies;
  std::optional<Error> failed;
  for (const RedisCommand& command : commands) {
    void* reply = nullptr;
    if (::redisGetReply(context_, &reply) != REDIS_OK) return lost();
    replies.emplace_back(static_cast<redisReply*>(reply));
    if (replies.back().is_error() && !failed)
      failed = Error{ErrorCode::kIo,
                     fmt::format("Redis at {} refuses {}: {}", place_, command[0], replies.back().text())};
  }
  if (failed) return *failed;
  return replies;
}

Result<RedisReply> RedisConnection::run(RedisCommand command) {
  const RedisCommand commands[] = {std::move(command)};
  LATHE_TRY(const auto replies, run(commands));
  return replies[0];
}

Result<std::vector<RedisReply>> RedisConnection::listen(double seconds) {
  pollfd readable{context_->fd, POLLIN, 0};
  std::vector<RedisReply> replies;
  if (::poll(&readable, 1, static_cast<int>(seconds * 1e3)) <= 0) return replies;
  if (::redisBufferRead(context_) != REDIS_OK) return lost();
  for (;;) {
    void* reply = nullptr;
    if (::redisGetReplyFromReader(context_, &reply) != REDIS_OK) return lost();
    if (!reply) return replies;
    replies.emplace_back(static_cast<redisReply*>(reply));
  }
}

}  // namespace lathe::serve
