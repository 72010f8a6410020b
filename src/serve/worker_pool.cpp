#include "serve/worker_pool.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>

namespace lathe::serve {
namespace {

constexpr int kFailuresUntilQuarantine = 3;
constexpr double kLongestRestartPauseSeconds = 30;
constexpr double kEndSeconds = 0.5;  // from the end of a worker's channel to that of its process

/// Whether it ended by a signal that this process has not sent and that no fault of its own brings.
bool was_killed(Process& process) {
  const auto status = process.wait(kEndSeconds);
  return status.ok() && status->signal == SIGKILL;
}

/// Sends from a thread of its own: a worker that does not read keeps nobody waiting.
class SocketLink final : public WorkerLink {
 public:
  explicit SocketLink(UniqueFd socket) : stream_(std::move(socket)), sender_([this] { send_all(); }) {}
  ~SocketLink() override {
    end();
    sender_.join();
  }

  void send(const FrontMessage& message) override {
    {
      std::lock_guard lock(mutex_);
      outbox_.push_back(encode(message));
    }
    changed_.notify_one();
  }

  void end() override {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    stream_.close();
  }

  MessageStream& stream() { return stream_; }

 private:
  void send_all() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || !outbox_.empty(); });
      if (ended_) return;
      const std::string message = std::move(outbox_.front());
      outbox_.pop_front();
      lock.unlock();
      if (!stream_.send(message).ok()) return;
    }
  }

  MessageStream stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> outbox_;
  bool ended_ = false;
  std::thread sender_;
};

class ProcessPool final : public WorkerPool {
 public:
  ProcessPool(WorkerSink& sink, std::vector<WorkerProgram> programs, EventSink& events)
      : sink_(sink), programs_(std::move(programs)), events_(events), links_(programs_.size()) {
    for (std::size_t i = 0; i < programs_.size(); ++i) threads_.emplace_back([this, i] { keep(i); });
  }

  ~ProcessPool() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const auto& link : links_)
        if (link) link->end();
    }
    stopped_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int quarantined() const override { return quarantined_; }

  std::optional<Error> hopeless() const override {
    if (programs_.empty() || any_began_ || quarantined_ < static_cast<int>(programs_.size()))
      return std::nullopt;
    std::string names;
    for (const WorkerProgram& program : programs_) names += (names.empty() ? "" : ", ") + program.name;
    return Error{ErrorCode::kUnavailable,
                 "no worker can start here (" + names + "); what each of them says stands above",
                 "lathe doctor --device DEVICE tells what is missing; without devices of its own a front end "
                 "is lathe serve --workers none"};
  }

 private:
  void keep(std::size_t index) {
    const WorkerProgram& program = programs_[index];
    int failures = 0;
    for (;;) {
      bool began = false;
      const Status status = run_once(index, began);
      if (!status.ok())
        events_.on_event({Severity::kError,
                          "serve.worker_failed",
                          status.error().to_string(),
                          {{"worker", program.name}}});
      if (began && failures >= kFailuresUntilQuarantine) --quarantined_;
      failures = began ? 0 : failures + 1;
      if (failures == kFailuresUntilQuarantine) ++quarantined_;
      const double pause =
          failures == 0 ? 0 : std::min(kLongestRestartPauseSeconds, 0.1 * (1 << std::min(failures, 10)));
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, std::chrono::duration<double>(pause), [&] { return stopping_; })) return;
    }
  }

  /// `began`: the worker has said hello.
  Status run_once(std::size_t index, bool& began) {
    const WorkerProgram& program = programs_[index];
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return errno_error("cannot make a socket for a worker");
    UniqueFd here(ends[0]), there(ends[1]);
    const Process::Descriptor descriptors[] = {{2, 2}, {there.get(), kWorkerSocketFd}};
    LATHE_TRY(Process process, Process::start(program.command, descriptors));
    there.reset();
    const auto link = std::make_shared<SocketLink>(std::move(here));
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return Ok{};
      links_[index] = link;
    }
    const Status status = listen(program.name, *link, link, began);
    const bool killed = was_killed(process);
    link->end();
    process.kill();
    const std::lock_guard lock(mutex_);
    links_[index] = nullptr;
    sink_.worker_ended(program.name, stopping_ ? WorkerEnd::kAsked
                                     : killed  ? WorkerEnd::kKilled
                                               : WorkerEnd::kFailed);
    return stopping_ || began ? Status(Ok{}) : status;
  }

  Status listen(const std::string& name, SocketLink& socket, const std::shared_ptr<WorkerLink>& link,
                bool& began) {
    for (;;) {
      LATHE_TRY(const std::string bytes, socket.stream().receive());
      LATHE_TRY(WorkerMessage message, decode_worker_message(bytes));
      auto* hello = std::get_if<WorkerHello>(&message);
      if (!began) {
        if (!hello || hello->protocol != kWorkerProtocol || hello->slots < 1)
          return Error{ErrorCode::kCorrupt, "the worker speaks another protocol"};
        began = any_began_ = true;
        sink_.worker_joined(name, *hello, link);
      } else {
        sink_.worker_said(name, std::move(message));
      }
    }
  }

  WorkerSink& sink_;
  const std::vector<WorkerProgram> programs_;
  EventSink& events_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  std::vector<std::shared_ptr<SocketLink>> links_;
  std::atomic<int> quarantined_{0};
  std::atomic<bool> any_began_{false};
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<WorkerPool> WorkerPool::start(WorkerSink& sink, std::vector<WorkerProgram> programs,
                                              EventSink& events) {
  return std::make_unique<ProcessPool>(sink, std::move(programs), events);
}

}  // namespace lathe::serve
