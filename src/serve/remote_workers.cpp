#include "serve/remote_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/random.h"

namespace lathe::serve {
namespace {

constexpr std::size_t kMostSessions = 4096;
constexpr std::size_t kBatchBytes = 8 << 20;  // of texts, in a reply

Error ended_error() { return {ErrorCode::kCancelled, "the session is over: begin another one"}; }
Error no_session() { return {ErrorCode::kNotFound, "there is no such session: begin another one"}; }

std::size_t text_bytes(const FrontMessage& message) {
  const auto* order = std::get_if<WorkOrder>(&message);
  return order ? order->candidate.size() + order->task_text.size() : 0;
}

std::string secret_name() {
  Digest random;
  random.bytes = Seed::from_system().bytes;
  return random.hex();
}

/// The service's end of one session. It lives as long as the service holds it.
class RemoteLink final : public WorkerLink {
 public:
  RemoteLink(WorkerSink& sink, std::string owner, std::string worker)
      : sink_(sink), owner_(std::move(owner)), worker_(std::move(worker)) {}
  ~RemoteLink() override {
    if (waiting_) waiting_->done(ended_error());
  }

  const std::string& owner() const { return owner_; }

  void send(const FrontMessage& message) override {
    std::unique_lock lock(mutex_);
    outbox_.push_back(message);
    if (auto waiting = take_waiting()) {
      FrontBatch batch = next();
      lock.unlock();
      waiting->done(std::move(batch));
    }
  }

  void end() override { finish(WorkerEnd::kFailed); }

  /// Silence is the network's or the machine's: a worker process that hangs beside a link that
  /// works is told by its supervisor.
  WorkerEnd when_silent() const override { return WorkerEnd::kKilled; }

  void finish(WorkerEnd end) {
    std::unique_lock lock(mutex_);
    if (std::exchange(ended_, true)) return;
    auto waiting = take_waiting();
    lock.unlock();
    sink_.worker_ended(worker_, end);
    if (waiting) waiting->done(ended_error());
  }

  Result<std::int64_t> say(WorkerBatch batch) {
    std::unique_lock lock(mutex_);
    if (ended_) return ended_error();
    bool sound = batch.first <= received_ + 1;
    for (std::size_t i = 0; sound && i < batch.messages.size(); ++i) {
      if (batch.first + static_cast<std::int64_t>(i) <= received_) continue;
      sound = !std::holds_alternative<WorkerHello>(batch.messages[i]);
      if (!sound) break;
      ++received_;
      sink_.worker_said(worker_, std::move(batch.messages[i]));
    }
    const std::int64_t received = received_;
    // Workers beat every second, which is often enough for this too.
    auto late = waiting_ && steady_clock().now_ns() >= waiting_->until_ns ? take_waiting() : std::nullopt;
    const std::int64_t after = acknowledged_;
    lock.unlock();
    if (late) late->done(FrontBatch{after + 1});
    if (sound) return received;
    end();
    return invalid("messages are missing, or out of order");
  }

  void poll(std::int64_t after, double seconds, std::function<void(RemoteWorkers::Polled)> done) {
    std::unique_lock lock(mutex_);
    if (ended_) {
      lock.unlock();
      return done(ended_error());
    }
    const auto known = acknowledged_ + static_cast<std::int64_t>(outbox_.size());
    while (acknowledged_ < std::min(after, known)) {
      outbox_.pop_front();
      ++acknowledged_;
    }
    auto older = take_waiting();  // of a connection that is no more
    FrontBatch batch = next();
    if (batch.messages.empty() && seconds > 0) {
      waiting_ = {steady_clock().now_ns() + static_cast<std::int64_t>(seconds * 1e9), std::move(done)};
      done = {};
    }
    lock.unlock();
    if (older) older->done(FrontBatch{batch.first});
    if (done) done(std::move(batch));
  }

 private:
  struct Waiting {
    std::int64_t until_ns;
    std::function<void(RemoteWorkers::Polled)> done;
  };

  std::optional<Waiting> take_waiting() { return std::exchange(waiting_, std::nullopt); }

  /// What has not been acknowledged, as much as fits.
  FrontBatch next() const {
    FrontBatch batch{acknowledged_ + 1};
    std::size_t bytes = 0;
    for (const FrontMessage& message : outbox_) {
      bytes += text_bytes(message);
      if (!batch.messages.empty() && (bytes > kBatchBytes || batch.messages.size() == kMaxMessages)) break;
      batch.messages.push_back(message);
    }
    return batch;
  }

  WorkerSink& sink_;
  const std::string owner_, worker_;
  std::mutex mutex_;
  std::deque<FrontMessage> outbox_;  // its first has number acknowledged_ + 1
  std::int64_t acknowledged_ = 0;
  std::int64_t received_ = 0;
  std::optional<Waiting> waiting_;
  bool ended_ = false;
};

class TheRemoteWorkers final : public RemoteWorkers {
 public:
  TheRemoteWorkers(WorkerSink& sink, WorkerKind kind) : sink_(sink), kind_(std::move(kind)) {}

  Result<std::string> join(const std::string& owner, const WorkerJoin& join) override {
    if (join.hello.protocol != kWorkerProtocol || join.hello.kind.gym_version != kind_.gym_version)
      return refusal(
          "front end has version {} of the gym (protocol {}), the worker {} ({}): install the same",
          kind_.gym_version, kWorkerProtocol, join.hello.kind.gym_version, join.hello.protocol);
    if (join.hello.kind.device_kind != kind_.device_kind)
      return refusal("front end takes evaluations for devices of the kind '{}', the worker's is '{}'",
                     kind_.device_kind, join.hello.kind.device_kind);
    std::string session = secret_name(), worker;
    std::shared_ptr<RemoteLink> link;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(sessions_, [](const auto& known) { return known.second.expired(); });
      if (sessions_.size() >= kMostSessions)
        return Error{ErrorCode::kBusy, "there are too many workers", "try again once some have ended"};
      worker = fmt::format("{}/{}#{}", owner, join.name, ++count_);
      link = std::make_shared<RemoteLink>(sink_, owner, worker);
      sessions_.emplace(session, link);
    }
    sink_.worker_joined(std::move(worker), join.hello, std::move(link));
    return session;
  }

  Result<std::int64_t> say(const std::string& owner, const std::string& session,
                           const std::string& body) override {
    auto batch = parse_worker_batch(body);
    const auto link = find(owner, session);
    if (!batch.ok()) {
      if (link) link->end();
      return batch.error();
    }
    auto said = link ? link->say(*batch) : Result<std::int64_t>(no_session());
    const bool is_over = !said.ok() && said.error().code != ErrorCode::kInvalid;
    for (WorkerMessage& message : batch->messages)  // the service counts what comes too late
      if (is_over && std::holds_alternative<WorkerAnswer>(message)) sink_.worker_said("", std::move(message));
    return said;
  }

  void poll(const std::string& owner, const std::string& session, std::int64_t after, double seconds,
            std::function<void(Polled)> done) override {
    if (const auto link = find(owner, session)) return link->poll(after, seconds, std::move(done));
    done(no_session());
  }

  Status end(const std::string& owner, const std::string& session, WorkerEnd end) override {
    const auto link = find(owner, session);
    if (!link) return no_session();
    link->finish(end);
    return Ok{};
  }

 private:
  template <class... Values>
  static Error refusal(fmt::format_string<Values...> form, Values&&... values) {
    return {ErrorCode::kUnavailable, "the " + fmt::format(form, std::forward<Values>(values)...)};
  }

  std::shared_ptr<RemoteLink> find(const std::string& owner, const std::string& session) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session);
    auto link = found == sessions_.end() ? nullptr : found->second.lock();
    return link && link->owner() == owner ? link : nullptr;
  }

  WorkerSink& sink_;
  const WorkerKind kind_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<RemoteLink>> sessions_;
  std::int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<RemoteWorkers> RemoteWorkers::make(WorkerSink& sink, WorkerKind kind) {
  return std::make_unique<TheRemoteWorkers>(sink, std::move(kind));
}

}  // namespace lathe::serve
