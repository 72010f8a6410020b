#include "serve/remote_front_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <variant>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/http/client.h"
#include "base/random.h"
#include "base/visible_text.h"
#include "record/json.h"
#include "serve/remote_message.h"

namespace lathe::serve {
namespace {

constexpr double kSayEverySeconds = 1;   // a beat, at least
constexpr double kSilentSeconds = 5;     // of a worker process, as the front end's lease
constexpr double kLongPollSeconds = 10;  // a long poll
constexpr double kLeaveSeconds = 0.3;    // until a front end gives a worker that leaves nothing more
constexpr double kFarewellSeconds = 3;   // for what is to be told when a worker has ended
constexpr double kShortestRetrySeconds = 0.1;
constexpr double kLongestRetrySeconds = 3;
constexpr double kRefusedRetrySeconds = 15;
constexpr std::size_t kMessagesAtOnce = 64;
constexpr std::size_t kShownBytes = 300;  // of a front end's error

std::int64_t after_seconds(double seconds) {
  return steady_clock().now_ns() + static_cast<std::int64_t>(seconds * 1e9);
}

const char* name(WorkerEnd end) {
  return end == WorkerEnd::kAsked ? "asked" : end == WorkerEnd::kKilled ? "killed" : "failed";
}

/// What a front end's error says.
std::string message_of(const std::string& body) {
  const auto document = parse_json(body, "the reply");
  if (!document.ok() || !document->is_object()) return "";
  const auto error = document->find("error");
  if (error == document->end() || !error->is_object()) return "";
  const auto message = error->find("message");
  if (message == error->end() || !message->is_string()) return "";
  return visible_line(message->get<std::string>().substr(0, kShownBytes));
}

/// How an exchange went.
struct Said {
  enum class Kind { kDone, kAgain, kSessionOver, kWorkerEnded, kRefused };
  Kind kind = Kind::kDone;
  std::string body = {};
  Error error = {};
};

/// What the bridges of one front end have in common.
class FrontEnd {
 public:
  FrontEnd(RemoteFrontEndOptions options, EventSink& events)
      : options_(std::move(options)), events_(events) {}

  const RemoteFrontEndOptions& options() const { return options_; }
  void log(Severity severity, const char* kind, std::string text, const std::string& worker) {
    events_.on_event({severity, kind, std::move(text), {{"worker", worker}}});
  }

  struct Ask {
    std::string method, path, body = {};
    double seconds = 2.5;
    CancelToken cancel = {};
  };
  /// `joins`: there is no session yet that might be over.
  Said ask(http::Connection& connection, const Ask& ask, bool joins = false) const {
    http::Request request{.url = options_.url + ask.path, .method = ask.method, .body = ask.body};
    if (!options_.token.empty()) request.headers.push_back("Authorization: Bearer " + options_.token);
    if (!ask.body.empty()) request.headers.push_back("Content-Type: application/json");
    request.connect_seconds = 2.5;
    request.total_seconds = ask.seconds + static_cast<double>(ask.body.size()) * 5e-6;
    request.idle_seconds = request.total_seconds;
    request.cancel = ask.cancel;
    auto reply = connection.exchange(request);
    if (!reply.ok()) {
      const bool is_final = reply.error().code == ErrorCode::kInvalid;  // no TLS
      return {is_final ? Said::Kind::kRefused : Said::Kind::kAgain, {}, reply.error()};
    }
    if (reply->status == 200) return {Said::Kind::kDone, std::move(reply->body)};
    const std::string said = message_of(reply->body);
    Error error{ErrorCode::kUnavailable, fmt::format("{} answers {}{}{}", options_.url, reply->status,
                                                     said.empty() ? "" : ": ", said)};
    return {kind_of(reply->status, joins, error.hint), {}, std::move(error)};
  }

  void accept() { accepted_ = true; }
  void refuse(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!accepted_ && !refusal_) refusal_ = error;
  }
  std::optional<Error> refusal() const {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }

 private:
  static Said::Kind kind_of(int status, bool joins, std::string& hint) {
    if (status == 401)
      hint = "put the token that lathe serve token add NAME --role worker prints into LATHE_TOKEN";
    if (status == 403) hint = "make a token of that role: lathe serve token add NAME --role worker";
    if (status == 409)
      hint = "the front end's --device says what it is for; lathe --version, which Lathe is here";
    if (joins && (status == 404 || status == 405))
      hint = "check --front-end: it names a lathe serve, which has to be as new as this program";
    if (!hint.empty()) return Said::Kind::kRefused;
    if (status == 404) return Said::Kind::kSessionOver;
    if (status == 410) return Said::Kind::kWorkerEnded;
    if (status == 429 || status >= 500) return Said::Kind::kAgain;
    return joins ? Said::Kind::kRefused : Said::Kind::kSessionOver;
  }

  const RemoteFrontEndOptions options_;
  EventSink& events_;
  std::atomic<bool> accepted_{false};
  mutable std::mutex mutex_;
  std::optional<Error> refusal_;
};

/// Pauses between attempts, which grow and differ.
class Backoff {
 public:
  void reset() { seconds_ = kShortestRetrySeconds; }
  double next() {
    const double pause = seconds_ * (0.5 + 0.5 * rng_.uniform());
    seconds_ = std::min(kLongestRetrySeconds, 2 * seconds_);
    return pause;
  }

 private:
  Rng rng_{Seed::from_system()};
  double seconds_ = kShortestRetrySeconds;
};

/// Between one worker process, for as long as it lives, and the front end: one thread talks, one
/// listens.
class Bridge {
 public:
  Bridge(FrontEnd& front_end, std::string name, WorkerHello hello, std::shared_ptr<WorkerLink> worker,
         bool draining)
      : front_end_(front_end),
        name_(std::move(name)),
        hello_(std::move(hello)),
        worker_(std::move(worker)),
        draining_(draining),
        talking_([this] { talk(); }),
        listening_([this] { listen(); }) {}

  ~Bridge() {
    talking_.join();
    listening_.join();
  }

  void say(WorkerMessage message) {
    {
      const std::lock_guard lock(mutex_);
      heard_ns_ = steady_clock().now_ns();
      if (const auto* beat = std::get_if<WorkerBeat>(&message)) {
        busy_seconds_ = beat->busy_seconds;
        return;
      }
      if (const auto* device = std::get_if<WorkerDevice>(&message)) device_ = *device;
      if (auto* answer = std::get_if<WorkerAnswer>(&message)) {
        const auto lease = leases_.find(answer->lease);
        if (lease == leases_.end()) return;  // of a session that is over
        answer->lease = lease->second;
        leases_.erase(lease);
      }
      if (session_.empty()) return;
      outbox_.push_back(std::move(message));
    }
    changed_.notify_all();
  }

  void drain() {
    {
      const std::lock_guard lock(mutex_);
      draining_ = true;
      if (!session_.empty()) outbox_.emplace_back(WorkerLeaves{});
    }
    changed_.notify_all();
  }

  bool is_idle() const {
    const std::lock_guard lock(mutex_);
    const bool has_left = left_ns_ > 0 && steady_clock().now_ns() >= left_ns_;
    return session_.empty() || (has_left && leases_.empty() && outbox_.empty());
  }

  /// The process has ended.
  void end(WorkerEnd end) {
    {
      const std::lock_guard lock(mutex_);
      end_ = end;
      farewell_until_ns_ = after_seconds(kFarewellSeconds);
      listening_cancel_.cancel();
    }
    changed_.notify_all();
  }
  bool has_finished() const { return finished_ == 2; }

 private:
  void talk() {
    http::Connection connection;
    Backoff backoff;
    std::unique_lock lock(mutex_);
    while (!end_ || (!session_.empty() && steady_clock().now_ns() < farewell_until_ns_)) {
      watch_worker();
      if (session_.empty()) {
        const double pause = draining_ ? kSayEverySeconds : join(connection, backoff, lock);
        changed_.wait_for(lock, std::chrono::duration<double>(pause), [&] { return end_.has_value(); });
        continue;
      }
      const double until_beat = static_cast<double>(next_beat_ns_ - steady_clock().now_ns()) * 1e-9;
      changed_.wait_for(lock, std::chrono::duration<double>(std::max(0.0, until_beat)),
                        [&] { return end_ || session_.empty() || !outbox_.empty(); });
      if (session_.empty()) continue;
      if (steady_clock().now_ns() >= next_beat_ns_) {
        next_beat_ns_ = after_seconds(kSayEverySeconds);
        if (outbox_.empty() || !std::holds_alternative<WorkerBeat>(outbox_.back()))
          outbox_.emplace_back(WorkerBeat{busy_seconds_});
      }
      if (outbox_.empty() && !end_) continue;
      const bool is_farewell = outbox_.empty();
      const Said said = is_farewell ? say_farewell(connection, lock) : say_some(connection, lock);
      if (is_farewell && said.kind == Said::Kind::kDone) break;
      if (said.kind == Said::Kind::kDone) {
        backoff.reset();
        continue;
      }
      if (said.kind != Said::Kind::kAgain) continue;
      listening_cancel_.cancel();  // its connection may be no better
      changed_.wait_for(lock, std::chrono::duration<double>(backoff.next()),
                        [&] { return session_.empty(); });
    }
    session_.clear();
    lock.unlock();
    changed_.notify_all();
    ++finished_;
  }

  /// A session, or how long to wait before another attempt.
  double join(http::Connection& connection, Backoff& backoff, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    const WorkerJoin join{front_end_.options().machine + "/" + name_, hello_};
    const Said said = front_end_.ask(connection, {"POST", "/v1/workers", encode(join)}, true);
    std::string session;
    if (said.kind == Said::Kind::kDone) session = session_in(said.body);
    lock.lock();
    if (!session.empty()) {
      backoff.reset();
      front_end_.accept();
      note_answer();
      session_ = std::move(session);
      outbox_.clear();
      if (device_) outbox_.emplace_back(*device_);
      if (draining_) outbox_.emplace_back(WorkerLeaves{});
      leases_.clear();
      said_ = received_ = 0;
      next_beat_ns_ = 0;
      changed_.notify_all();
      front_end_.log(Severity::kInfo, "worker.joined", front_end_.options().url, name_);
      return 0;
    }
    if (said.kind == Said::Kind::kRefused) {
      front_end_.refuse(said.error);
      note_failure(said.error);
      return kRefusedRetrySeconds;
    }
    note_failure(said.kind == Said::Kind::kDone ? Error{ErrorCode::kCorrupt, "that is no front end"}
                                                : said.error);
    return backoff.next();
  }

  static std::string session_in(const std::string& body) {
    const auto document = parse_json(body, "the reply");
    if (!document.ok() || !document->is_object()) return "";
    const auto session = document->find("session");
    if (session == document->end() || !session->is_string()) return "";
    const auto text = session->get<std::string>();
    return Digest::from_hex(text).ok() ? text : "";
  }

  Said say_some(http::Connection& connection, std::unique_lock<std::mutex>& lock) {
    const std::string session = session_;
    const auto count = std::min(outbox_.size(), kMessagesAtOnce);
    WorkerBatch batch{said_ + 1};
    batch.messages.assign(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(count));
    lock.unlock();
    Said said = front_end_.ask(connection, {"POST", "/v1/workers/" + session + "/messages", encode(batch)});
    lock.lock();
    if (session_ != session) return {Said::Kind::kSessionOver};
    if (said.kind == Said::Kind::kDone) {
      for (std::size_t i = 0; i < count; ++i)
        if (std::holds_alternative<WorkerLeaves>(outbox_[i])) left_ns_ = after_seconds(kLeaveSeconds);
      outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(count));
      said_ += static_cast<std::int64_t>(count);
      note_answer();
    } else {
      take_failure(said);
    }
    return said;
  }

  Said say_farewell(http::Connection& connection, std::unique_lock<std::mutex>& lock) {
    const std::string target = "/v1/workers/" + session_ + "?end=" + name(*end_);
    lock.unlock();
    Said said = front_end_.ask(connection, {"DELETE", target, {}, 1});
    lock.lock();
    if (said.kind != Said::Kind::kDone) take_failure(said);
    return said;
  }

  void listen() {
    http::Connection connection;
    Backoff backoff;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return end_ || !session_.empty(); });
      if (end_) break;
      const std::string session = session_;
      listening_cancel_ = {};
      FrontEnd::Ask ask{
          "GET",
          fmt::format("/v1/workers/{}/messages?after={}&wait={}", session, received_, kLongPollSeconds),
          {},
          kLongPollSeconds + 10,
          listening_cancel_};
      lock.unlock();
      Said said = front_end_.ask(connection, ask);
      auto batch =
          said.kind == Said::Kind::kDone ? parse_front_batch(said.body) : Result<FrontBatch>(said.error);
      lock.lock();
      if (end_) break;
      if (session_ != session) continue;
      if (batch.ok()) {
        backoff.reset();
        for (std::size_t i = 0; i < batch->messages.size(); ++i)
          if (batch->first + static_cast<std::int64_t>(i) == received_ + 1) {
            ++received_;
            give(std::move(batch->messages[i]));
          }
        continue;
      }
      if (said.kind == Said::Kind::kDone) said = {Said::Kind::kAgain, {}, batch.error()};
      if (said.error.code != ErrorCode::kCancelled) take_failure(said);
      changed_.wait_for(lock, std::chrono::duration<double>(backoff.next()),
                        [&] { return end_.has_value(); });
    }
    lock.unlock();
    ++finished_;
  }

  /// To the worker, under a number of this bridge.
  void give(FrontMessage message) {
    if (auto* order = std::get_if<WorkOrder>(&message)) {
      leases_[++last_lease_] = order->lease;
      order->lease = last_lease_;
      worker_->send(message);
    }
    if (const auto* cancel = std::get_if<CancelOrder>(&message))
      for (const auto& [here, there] : leases_)
        if (there == cancel->lease) worker_->send(CancelOrder{here});
  }

  void take_failure(const Said& said) {
    if (said.kind == Said::Kind::kAgain) return note_failure(said.error);
    front_end_.log(Severity::kWarning, "worker.session_over",
                   fmt::format("{}; {} evaluations are left to others", said.error.message, leases_.size()),
                   name_);
    session_.clear();
    outbox_.clear();
    listening_cancel_.cancel();
    for (const auto& [here, there] : std::exchange(leases_, {})) worker_->send(CancelOrder{here});
    if (said.kind == Said::Kind::kWorkerEnded) worker_->end();
    changed_.notify_all();
  }

  /// One line for many attempts.
  void note_failure(const Error& error) {
    if (std::exchange(is_cut_off_, true)) return;
    front_end_.log(Severity::kWarning, "worker.cut_off", error.to_string() + "; it tries again", name_);
  }
  void note_answer() {
    if (!std::exchange(is_cut_off_, false)) return;
    front_end_.log(Severity::kInfo, "worker.back", "the front end answers again", name_);
  }

  /// A process that says nothing is ended, but for a pause of this program itself.
  void watch_worker() {
    const std::int64_t now = steady_clock().now_ns(), gap = now - std::exchange(watched_ns_, now);
    const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-9; };
    if (seconds(gap) > kSilentSeconds / 2) heard_ns_ = std::min(now, heard_ns_ + gap);
    if (end_ || seconds(now - heard_ns_) <= kSilentSeconds) return;
    heard_ns_ = now;
    front_end_.log(Severity::kWarning, "worker.silent", "the worker process is silent, and is ended", name_);
    worker_->end();
  }

  FrontEnd& front_end_;
  const std::string name_;
  const WorkerHello hello_;
  const std::shared_ptr<WorkerLink> worker_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string session_;
  std::deque<WorkerMessage> outbox_;             // its first has number said_ + 1
  std::int64_t said_ = 0, received_ = 0;         // in this session
  std::map<std::int64_t, std::int64_t> leases_;  // by the number here, the front end's
  std::int64_t last_lease_ = 0;
  double busy_seconds_ = 0;
  std::optional<WorkerDevice> device_;  // told in every session
  std::int64_t heard_ns_ = steady_clock().now_ns(), watched_ns_ = heard_ns_;
  std::int64_t next_beat_ns_ = 0, farewell_until_ns_ = 0;
  CancelToken listening_cancel_;
  std::int64_t left_ns_ = 0;  // from then on nothing more comes; 0: the front end does not know yet
  bool is_cut_off_ = false, draining_ = false;
  std::optional<WorkerEnd> end_;
  std::atomic<int> finished_{0};
  std::thread talking_, listening_;  // last, for they use the rest
};

class HttpFrontEnd final : public RemoteFrontEnd {
 public:
  HttpFrontEnd(RemoteFrontEndOptions options, EventSink& events) : front_end_(std::move(options), events) {}
  ~HttpFrontEnd() override {
    for (auto& [name, bridge] : bridges_) bridge->end(WorkerEnd::kAsked);
  }

  void worker_joined(std::string name, WorkerHello hello, std::shared_ptr<WorkerLink> link) override {
    const std::lock_guard lock(mutex_);
    std::erase_if(ended_, [](const auto& bridge) { return bridge->has_finished(); });
    end_bridge(name, WorkerEnd::kFailed);
    bridges_[name] = std::make_unique<Bridge>(front_end_, name, std::move(hello), std::move(link), draining_);
  }

  void worker_said(std::string name, WorkerMessage message) override {
    const std::lock_guard lock(mutex_);
    if (const auto bridge = bridges_.find(name); bridge != bridges_.end())
      bridge->second->say(std::move(message));
  }

  void worker_ended(std::string name, WorkerEnd end) override {
    const std::lock_guard lock(mutex_);
    end_bridge(name, end);
  }

  void drain() override {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    for (auto& [name, bridge] : bridges_) bridge->drain();
  }

  bool is_idle() const override {
    const std::lock_guard lock(mutex_);
    return std::all_of(bridges_.begin(), bridges_.end(),
                       [](const auto& named) { return named.second->is_idle(); });
  }

  std::optional<Error> refusal() const override { return front_end_.refusal(); }

 private:
  void end_bridge(const std::string& name, WorkerEnd end) {
    const auto bridge = bridges_.find(name);
    if (bridge == bridges_.end()) return;
    bridge->second->end(end);
    ended_.push_back(std::move(bridge->second));
    bridges_.erase(bridge);
  }

  FrontEnd front_end_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Bridge>> bridges_;
  std::list<std::unique_ptr<Bridge>> ended_;
  bool draining_ = false;
};

}  // namespace

Result<std::unique_ptr<RemoteFrontEnd>> RemoteFrontEnd::make(RemoteFrontEndOptions options,
                                                             EventSink& events) {
  while (options.url.ends_with("/")) options.url.pop_back();
  LATHE_CHECK_OK(http::check_url(options.url));
  LATHE_TRY(options.token, http::header_secret(options.token, "LATHE_TOKEN"));
  return std::unique_ptr<RemoteFrontEnd>(std::make_unique<HttpFrontEnd>(std::move(options), events));
}

}  // namespace lathe::serve
