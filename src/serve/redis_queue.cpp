#include "serve/redis_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>
#include <utility>

#include "base/random.h"
#include "serve/redis_scripts.h"
#include "serve/service.h"

namespace lathe::serve {
namespace {

constexpr const char* kNewsChannel = "lathe:news";
constexpr std::size_t kArgumentsOfACall = 2000;  // a script's table is unpacked onto Lua's stack
constexpr double kLongestPauseSeconds = 2;       // others miss whoever is silent for a lease
constexpr double kListenSeconds = 0.2;

std::string random_name() {
  Digest bytes;
  bytes.bytes = Seed::from_system().bytes;
  return bytes.short_hex();
}

std::string text_of(const WorkerKind& kind) { return kind.device_kind + '\x1e' + kind.gym_version; }

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "\n") + text;
  return all;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// Wakes the front end when another one has said something. What it misses, the next exchange
/// finds.
class NewsListener {
 public:
  NewsListener(RedisUrl url, std::string own_name)
      : url_(std::move(url)), own_name_(std::move(own_name)), thread_([this] { listen(); }) {}
  ~NewsListener() {
    ended_ = true;
    thread_.join();
  }
  void on_news(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }

 private:
  void listen() {
    std::unique_ptr<RedisConnection> connection;
    while (!ended_) {
      if (!connection) {
        auto opened = RedisConnection::open(url_);
        if (opened.ok() && (*opened)->run(RedisCommand{"SUBSCRIBE", kNewsChannel}).ok())
          connection = *std::move(opened);
        if (!connection) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        continue;
      }
      const auto messages = connection->listen(kListenSeconds);
      if (!messages.ok()) {
        connection.reset();
        continue;
      }
      const bool is_news = std::any_of(messages->begin(), messages->end(), [&](const RedisReply& message) {
        return message.size() == 3 && message[2].text() != own_name_;
      });
      const std::lock_guard lock(mutex_);
      if (is_news && wake_) wake_();
    }
  }

  const RedisUrl url_;
  const std::string own_name_;
  std::mutex mutex_;
  std::function<void()> wake_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

class RedisQueue final : public SharedQueue {
 public:
  RedisQueue(const RedisQueueOptions& options, const Clock& clock, EventSink& events)
      : options_(options), clock_(clock), events_(events), listener_(options.url, name_) {}

  Status connect() {
    LATHE_TRY(auto connection, RedisConnection::open(options_.url));
    const std::string functions(kRedisFunctions);
    const std::vector<RedisCommand> loads = {
        {"SCRIPT", "LOAD", functions + kRedisAdd},    {"SCRIPT", "LOAD", functions + kRedisOver},
        {"SCRIPT", "LOAD", functions + kRedisReturn}, {"SCRIPT", "LOAD", functions + kRedisTakeOver},
        {"SCRIPT", "LOAD", functions + kRedisTake},   {"SCRIPT", "LOAD", functions + kRedisBeat},
        {"SCRIPT", "LOAD", functions + kRedisCounts}, {"SCRIPT", "LOAD", functions + kRedisHeld}};
    LATHE_TRY(const auto replies, connection->run(loads));
    for (std::size_t i = 0; i < replies.size(); ++i) scripts_[i] = replies[i].text();
    connection_ = std::move(connection);
    is_fresh_ = true;
    return Ok{};
  }

  /// Of what would lose the queue; the server may forbid the question.
  void warn() {
    const auto warn_of = [&](const char* setting, const char* good, const char* remedy) {
      auto reply = connection_->run(RedisCommand{"CONFIG", "GET", setting});
      if (!reply.ok() || reply->size() != 2 || (*reply)[1].text() == good) return;
      events_.on_event({Severity::kWarning, "serve.redis",
                        fmt::format("Redis at {} has {} {}: {}", options_.url.place(), setting,
                                    (*reply)[1].text(), remedy)});
    };
    warn_of("appendonly", "yes",
            "a restart empties the queue, which is then built again from the ledger; set appendonly yes");
    warn_of("maxmemory-policy", "noeviction", "it may throw away what waits; set noeviction");
  }

  Result<News> exchange(const Turn& turn) override {
    const std::int64_t now = clock_.now_ns();
    if (!connection_) {
      if (now < next_try_ns_) return last_error_;
      if (const Status connected = connect(); !connected.ok()) return failed(connected.error());
    }
    auto news = exchange_all(turn, now);
    if (!news.ok()) return failed(news.error());
    pause_seconds_ = 0;
    return news;
  }

  void leave() override {
    if (connection_) (void)connection_->run(script(kTakeOver, {name_}));
    connection_.reset();
  }

  Result<QueueCounts> counts() override {
    if (!connection_) return last_error_;
    LATHE_TRY(const RedisReply reply, connection_->run(script(kCounts, {})));
    QueueCounts counts;
    const std::int64_t now = unix_milliseconds();
    for (std::size_t i = 0; i + 3 < reply.size(); i += 4) {
      const std::string line = reply[i].text();
      const std::int64_t all = reply[i + 1].integer(), held = reply[i + 2].integer(),
                         rank = reply[i + 3].integer();
      const std::size_t client = line.find('\x1f') + 1, priority = line.find('\x1f', client) + 1;
      const std::string class_name = line.substr(priority);
      const int step = std::atoi(class_name.c_str());
      counts.by_client[line.substr(client, priority - client - 1)] += all;
      counts.waiting += all - held;
      counts.leased += held;
      if (all == held) continue;
      QueueCounts::Class& of_priority = counts.by_priority[step];
      of_priority.waiting += all - held;
      if (class_name != "again")
        of_priority.oldest_seconds =
            std::max(of_priority.oldest_seconds, static_cast<double>(now - rank - 30'000 * step) * 1e-3);
    }
    counts.expired_leases = taken_over_;
    return counts;
  }

  void on_news(std::function<void()> wake) override { listener_.on_news(std::move(wake)); }

 private:
  enum Script { kAdd, kOver, kReturn, kTakeOver, kTake, kBeat, kCounts, kHeld, kScripts };

  RedisCommand script(Script which, std::vector<std::string> arguments) const {
    RedisCommand command = {"EVALSHA", scripts_[which], "0"};
    command.insert(command.end(), std::make_move_iterator(arguments.begin()),
                   std::make_move_iterator(arguments.end()));
    return command;
  }

  Error failed(Error error) {
    connection_.reset();
    pause_seconds_ = std::clamp(pause_seconds_ * 2, 0.1, kLongestPauseSeconds);
    next_try_ns_ = clock_.now_ns() + static_cast<std::int64_t>(pause_seconds_ * 1e9);
    last_error_ = std::move(error);
    return last_error_;
  }

  Result<News> exchange_all(const Turn& turn, std::int64_t now) {
    News news;
    const bool beats = is_fresh_ || now - beat_ns_ >= static_cast<std::int64_t>(options_.beat_seconds * 1e9);
    if (beats) LATHE_CHECK_OK(beat(now, news));
    std::vector<RedisCommand> commands;
    put_over(turn, commands);
    put_added(turn, commands);
    if (!turn.returned.empty()) {
      std::vector<std::string> ids;
      for (const Digest& id : turn.returned) {
        ids.push_back(id.hex());
        charged_.erase(id);
      }
      put(kReturn, {}, ids, 1, commands);
    }
    if (!commands.empty()) commands.push_back({"PUBLISH", kNewsChannel, name_});
    const std::size_t takes_at = commands.size();
    for (const auto& [kind, wish] : turn.wishes)
      commands.push_back(script(kTake, {name_, text_of(kind), std::to_string(wish.now),
                                        std::to_string(wish.ahead), fmt::format("{:.6f}", mean_cost_)}));
    commands.push_back({"XREAD", "COUNT", "5000", "STREAMS", "lathe:done", done_});
    LATHE_TRY(const auto replies, connection_->run(commands));
    for (std::size_t i = takes_at; i + 1 < replies.size(); ++i)
      for (std::size_t k = 0; k < replies[i].size(); ++k) {
        LATHE_TRY(const Digest id, Digest::from_hex(replies[i][k].text()));
        charged_[id] = mean_cost_;
        untold_.push_back(id);
      }
    LATHE_CHECK_OK(read_done(replies.back(), news));
    news.given = std::exchange(untold_, {});
    news.expelled = std::exchange(expelled_, false);
    return news;
  }

  Status beat(std::int64_t now, News& news) {
    const std::string own_epoch = random_name();
    const auto lease_ms = static_cast<std::int64_t>(options_.lease_seconds * 1e3);
    LATHE_TRY(const RedisReply reply,
              connection_->run(script(kBeat, {name_, std::to_string(++beats_), options_.gym_version,
                                              own_epoch, std::to_string(lease_ms)})));
    if (reply.size() != 5) return Error{ErrorCode::kIo, "Redis answers something else"};
    const std::int64_t lease_ns = static_cast<std::int64_t>(options_.lease_seconds * 1e9);
    const std::int64_t gap = now - std::exchange(beat_ns_, now);
    const std::string epoch = reply[0].text(), registration = reply[1].text();
    const std::int64_t fresh_ms = reply[4].integer();
    if (!is_registered_ && fresh_ms > 0) silent_until_ns_ = now + fresh_ms * 1'000'000;
    const bool expelled = is_registered_ && registration != registration_ && epoch == epoch_;
    registration_ = registration;
    news.rebuild = is_fresh_ || epoch != epoch_ || expelled;
    if (news.rebuild) done_ = reply[2].text();
    if (expelled) {
      expelled_ = true;
      charged_.clear();
      untold_.clear();
    }
    if (is_fresh_ && is_registered_) LATHE_CHECK_OK(find_given());
    is_registered_ = true;
    is_fresh_ = false;
    epoch_ = epoch;
    // Only silence counts that this front end was there to hear.
    const std::int64_t unheard_ns = gap > lease_ns / 2 ? gap : 0;
    for (auto& [name, front] : fronts_) {
      front.seen_ns = std::min(now, front.seen_ns + unheard_ns);
      front.is_listed = false;
    }
    const RedisReply all = reply[3];
    for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
      const std::string beat = all[i + 1].text();
      Front& front = fronts_[all[i].text()];
      if (front.beat != beat) front = {beat, now};
      front.is_listed = true;
    }
    for (auto it = fronts_.begin(); it != fronts_.end();) {
      const auto& [name, front] = *it;
      if (name == name_ || now - front.seen_ns <= lease_ns) {
        news.live_versions.push_back(front.beat.substr(front.beat.find(' ') + 1));
        ++it;
        continue;
      }
      // What is not listed has left, or was never heard of again by a server that was wiped.
      bool is_lost = !front.is_listed;
      if (front.is_listed) {
        LATHE_TRY(const RedisReply taken, connection_->run(script(kTakeOver, {name})));
        is_lost = taken.integer() == 1;
        if (is_lost) {
          ++taken_over_;
          events_.on_event(
              {Severity::kWarning, "serve.front_end_lost", "what it held waits again", {{"front", name}}});
        }
      }
      news.rebuild |= is_lost;  // it may have ended between ledger and queue, and its version with it
      it = fronts_.erase(it);
    }
    if (now < silent_until_ns_) news.live_versions.clear();
    return Ok{};
  }

  /// What was given while the connection was lost.
  Status find_given() {
    LATHE_TRY(const RedisReply held, connection_->run(script(kHeld, {name_})));
    for (std::size_t i = 0; i < held.size(); ++i) {
      LATHE_TRY(const Digest id, Digest::from_hex(held[i].text()));
      if (charged_.try_emplace(id, mean_cost_).second) untold_.push_back(id);
    }
    return Ok{};
  }

  /// A script's arguments in several calls where they are many; `step` belong together.
  void put(Script which, const std::vector<std::string>& first, const std::vector<std::string>& arguments,
           std::size_t step, std::vector<RedisCommand>& commands) const {
    const std::size_t most = kArgumentsOfACall / step * step;
    for (std::size_t at = 0; at < arguments.size(); at += most) {
      std::vector<std::string> call = first;
      call.insert(call.end(), arguments.begin() + static_cast<std::ptrdiff_t>(at),
                  arguments.begin() + static_cast<std::ptrdiff_t>(std::min(arguments.size(), at + most)));
      commands.push_back(script(which, std::move(call)));
    }
  }

  void put_added(const Turn& turn, std::vector<RedisCommand>& commands) const {
    std::vector<std::string> arguments;
    for (const Item& item : turn.added)
      for (std::string text : {item.id.hex(), text_of(item.kind), item.client, std::to_string(item.priority),
                               std::to_string(item.since_unix_ms)})
        arguments.push_back(std::move(text));
    put(kAdd, {}, arguments, 5, commands);
  }

  void put_over(const Turn& turn, std::vector<RedisCommand>& commands) {
    constexpr double kNewest = 0.05;
    std::vector<std::string> arguments;
    for (const Over& over : turn.over) {
      double beyond = over.seconds;
      if (const auto charged = charged_.find(over.id); charged != charged_.end() && over.gone) {
        beyond -= charged->second;
        charged_.erase(charged);
        if (over.answered && over.seconds > 0) mean_cost_ += kNewest * (over.seconds - mean_cost_);
      }
      const char* const gone = !over.gone ? "0" : over.if_held ? "if held" : "1";
      for (std::string text :
           {over.id.hex(), std::string(gone), joined(over.clients), fmt::format("{:.6f}", beyond)})
        arguments.push_back(std::move(text));
    }
    put(kOver, {name_}, arguments, 4, commands);
  }

  Status read_done(const RedisReply& reply, News& news) {
    if (reply.size() == 0) return Ok{};
    const RedisReply entries = reply[0][1];
    for (std::size_t i = 0; i < entries.size(); ++i) {
      done_ = entries[i][0].text();
      const RedisReply fields = entries[i][1];
      if (fields.size() != 8) return Error{ErrorCode::kIo, "Redis has an entry of another form"};
      if (fields[7].text() == name_) continue;
      LATHE_TRY(const Digest id, Digest::from_hex(fields[1].text()));
      const bool gone = fields[3].text() == "1";
      if (gone) charged_.erase(id);
      news.over.push_back({id, gone, lines_of(fields[5].text()), 0});
    }
    return Ok{};
  }

  struct Front {
    std::string beat;
    std::int64_t seen_ns = 0;
    bool is_listed = true;  ///< by the server
  };

  const RedisQueueOptions options_;
  const Clock& clock_;
  EventSink& events_;
  const std::string name_ = random_name();
  NewsListener listener_;
  std::unique_ptr<RedisConnection> connection_;
  std::string scripts_[kScripts];
  std::map<std::string, Front> fronts_;
  std::map<Digest, double> charged_;  ///< seconds, of what is held
  std::vector<Digest> untold_;        ///< of these: given in an exchange that then failed
  double mean_cost_ = 0.1;
  std::string epoch_, registration_, done_ = "0-0";
  bool is_fresh_ = false, is_registered_ = false;
  bool expelled_ = false;  ///< and not told yet: the exchange failed
  std::int64_t beats_ = 0, beat_ns_ = 0, taken_over_ = 0;
  std::int64_t next_try_ns_ = 0;
  std::int64_t silent_until_ns_ = 0;  ///< about versions: the server is fresh, and others may yet beat
  double pause_seconds_ = 0;
  Error last_error_;
};

}  // namespace

Result<std::unique_ptr<SharedQueue>> open_redis_queue(const RedisQueueOptions& options, const Clock& clock,
                                                      EventSink& events) {
  auto queue = std::make_unique<RedisQueue>(options, clock, events);
  LATHE_CHECK_OK(queue->connect());
  queue->warn();
  return std::unique_ptr<SharedQueue>(std::move(queue));
}

}  // namespace lathe::serve
