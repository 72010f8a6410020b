#include "serve/worker.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <thread>
#include <utility>

#include "task/task_text.h"

namespace lathe::serve {
namespace {

constexpr std::size_t kParsedTasks = 256;

/// Clients see the message alone.
Error with_hint_in_message(Error error) {
  if (!error.hint.empty()) error.message += "; " + std::exchange(error.hint, {});
  return error;
}

class WorkerLoop {
 public:
  WorkerLoop(MessageStream& stream, Evaluator& evaluator, const WorkerSetup& setup, EventSink& events)
      : stream_(stream), evaluator_(evaluator), setup_(setup), events_(events) {}

  Status run() {
    LATHE_CHECK_OK(stream_.send(encode(WorkerMessage(setup_.hello))));
    std::thread answering([this] { answer_all(); });
    std::thread beating([this] { beat(); });
    std::thread measuring([this] { tell_device(); });
    const Status status = take_orders();
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      for (auto& [ticket, job] : jobs_) job.cancel.cancel();
    }
    changed_.notify_all();
    stream_.close();
    answering.join();
    beating.join();
    measuring.join();
    return status;
  }

 private:
  struct Job {
    std::int64_t lease;
    Digest id;
    std::string trace;
    CancelToken cancel;
  };

  Status take_orders() {
    for (;;) {
      const auto bytes = stream_.receive();
      if (!bytes.ok()) return bytes.error().code == ErrorCode::kCorrupt ? Status(bytes.error()) : Ok{};
      LATHE_TRY(const FrontMessage message, decode_front_message(*bytes));
      if (const auto* order = std::get_if<WorkOrder>(&message)) begin(*order);
      if (const auto* cancel = std::get_if<CancelOrder>(&message)) {
        std::lock_guard lock(mutex_);
        for (auto& [ticket, job] : jobs_)
          if (job.lease == cancel->lease) job.cancel.cancel();
      }
    }
  }

  void begin(const WorkOrder& order) {
    const auto task = parsed(order);
    if (!task.ok()) return refuse(order, task.error());
    EvaluationRequest request{.task = *task, .text = order.candidate, .depth = order.depth};
    request.deadline_seconds = order.deadline_seconds;
    Job job{order.lease, order.id, order.trace, request.cancel};
    {
      std::lock_guard lock(mutex_);
      const auto ticket = evaluator_.submit(std::move(request));
      if (ticket.ok()) {
        jobs_.emplace(*ticket, std::move(job));
        changed_.notify_all();
        return;
      }
      return refuse(order, ticket.error());
    }
  }

  void refuse(const WorkOrder& order, const Error& error) {
    (void)stream_.send(
        encode(WorkerMessage(WorkerAnswer{order.lease, std::nullopt, with_hint_in_message(error)})));
  }

  Result<std::shared_ptr<const TaskSpec>> parsed(const WorkOrder& order) {
    if (const auto known = tasks_.find(order.task); known != tasks_.end()) return known->second;
    LATHE_TRY(TaskSpec read, parse_task_text(TaskText::split(order.task_text), order.task_name));
    if (read.digest != order.task)
      return Error{ErrorCode::kCorrupt, "the task's text is not what its digest names"};
    LATHE_TRY(TaskSpec spec, setup_.complete(std::move(read)));
    if (tasks_.size() >= kParsedTasks) tasks_.erase(tasks_.begin());
    auto task = std::make_shared<const TaskSpec>(std::move(spec));
    tasks_.emplace(order.task, task);
    return std::shared_ptr<const TaskSpec>(task);
  }

  void answer_all() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ended_ || !jobs_.empty(); });
        if (ended_ && jobs_.empty()) return;
      }
      auto evaluated = evaluator_.poll(0.25);
      if (!evaluated) continue;
      std::optional<Job> job;
      {
        std::lock_guard lock(mutex_);
        const auto found = jobs_.find(evaluated->ticket);
        if (found == jobs_.end()) continue;
        job = std::move(found->second);
        jobs_.erase(found);
        if (ended_) continue;
      }
      WorkerAnswer answer{job->lease, std::nullopt, {}};
      if (evaluated->verdict.ok()) {
        answer.verdict = *std::move(evaluated->verdict);
      } else {
        answer.error = with_hint_in_message(evaluated->verdict.error());
      }
      events_.on_event(
          {Severity::kInfo,
           "worker.evaluated",
           answer.verdict ? std::string(name(answer.verdict->outcome)) : answer.error.to_string(),
           {{"request", job->trace}, {"evaluation", job->id.hex()}}});
      (void)stream_.send(encode(WorkerMessage(std::move(answer))));
    }
  }

  void tell_device() {
    if (!setup_.measure) return;
    auto record = setup_.measure();
    if (record.ok()) return (void)stream_.send(encode(WorkerMessage(WorkerDevice{*std::move(record)})));
    events_.on_event({Severity::kWarning, "worker.unmeasured", record.error().to_string()});
  }

  void beat() {
    const auto period = std::chrono::duration<double>(setup_.beat_seconds);
    auto next = std::chrono::steady_clock::now();
    for (;;) {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return ended_; })) return;
      lock.unlock();
      if (setup_.stop.cancelled()) {
        (void)stream_.send(encode(WorkerMessage(WorkerLeaves{})));
        return stream_.close();
      }
      if (std::chrono::steady_clock::now() < next) continue;
      next += std::chrono::duration_cast<std::chrono::steady_clock::duration>(period);
      if (!stream_.send(encode(WorkerMessage(WorkerBeat{setup_.busy_seconds()}))).ok()) return;
    }
  }

  MessageStream& stream_;
  Evaluator& evaluator_;
  const WorkerSetup& setup_;
  EventSink& events_;
  std::map<Digest, std::shared_ptr<const TaskSpec>> tasks_;  // of the thread that takes orders
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Ticket, Job> jobs_;
  bool ended_ = false;
};

}  // namespace

Status serve_front_end(MessageStream& stream, Evaluator& evaluator, const WorkerSetup& setup,
                       EventSink& events) {
  return WorkerLoop(stream, evaluator, setup, events).run();
}

}  // namespace lathe::serve
