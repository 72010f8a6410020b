#include "gym/evaluator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "gym/cancellable.h"
#include "gym/task_bench.h"

namespace lathe {
namespace {

constexpr auto kCancelPoll = std::chrono::milliseconds(20);  // a token wakes nobody

/// Requests go through two queues: build workers take from the first, the one timing lane from the second.
///
///   submit -> [waiting] -> build worker -> [built] -> lane: verify, time -> [done] -> next
///
/// Builds hold the gate's noisy side and timing its quiet side, so neither disturbs the other on small
/// machines.
class QueuedEvaluator final : public Evaluator {
 public:
  QueuedEvaluator(std::unique_ptr<Backend> backend, std::unique_ptr<TaskBench> bench, int build_workers,
                  CancelToken cancel)
      : backend_(std::move(backend)),
        bench_(std::move(bench)),
        gate_(!backend_->device().quiet_compiles),
        cancel_(std::move(cancel)) {
    for (int i = 0; i < build_workers; ++i) workers_.emplace_back([this] { build_loop(); });
    workers_.emplace_back([this] { lane_loop(); });
  }

  ~QueuedEvaluator() override {
    cancel();
    for (std::thread& worker : workers_) worker.join();
  }

  void submit(EvaluationRequest request) override {
    std::lock_guard lock(mutex_);
    ++in_flight_;
    waiting_.push_back({std::move(request), steady_clock().now_ns()});
    changed_.notify_all();
  }

  std::optional<Evaluated> next() override {
    std::unique_lock lock(mutex_);
    while (done_.empty() && in_flight_ > 0 && !cancel_.cancelled()) changed_.wait_for(lock, kCancelPoll);
    if (cancel_.cancelled()) changed_.notify_all();
    if (done_.empty()) return std::nullopt;
    Evaluated evaluated = std::move(done_.front());
    done_.pop_front();
    --in_flight_;
    return evaluated;
  }

  int in_flight() const override {
    std::lock_guard lock(mutex_);
    return in_flight_;
  }

  void cancel() override {
    std::lock_guard lock(mutex_);
    cancel_.cancel();
    changed_.notify_all();
  }

  const std::vector<BaselineTime>& baselines() const override { return bench_->baselines(); }
  const std::string& best_baseline() const override { return bench_->best_baseline(); }

 private:
  struct Waiting {
    EvaluationRequest request;
    std::int64_t submitted_ns;
  };
  struct Built {
    EvaluationRequest request;
    BuiltCandidate candidate;
    double queue_seconds;
    double build_seconds;
  };

  /// The next item of a queue; nullopt once cancelled.
  template <class Item>
  std::optional<Item> take(std::deque<Item>& queue) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !queue.empty() || cancel_.cancelled(); });
    if (cancel_.cancelled()) return std::nullopt;
    Item item = std::move(queue.front());
    queue.pop_front();
    return item;
  }

  void build_loop() {
    while (auto waiting = take(waiting_)) {
      const double queue_seconds = seconds_since(waiting->submitted_ns);
      const QuietGate::Lease noisy(gate_, false);
      const auto begin = steady_clock().now_ns();
      auto candidate = build_for_shapes(*backend_, waiting->request.candidate, bench_->shapes());
      Built built{std::move(waiting->request), std::move(candidate), queue_seconds, seconds_since(begin)};
      std::lock_guard lock(mutex_);
      built_.push_back(std::move(built));
      changed_.notify_all();
    }
  }

  void lane_loop() {
    while (auto built = take(built_)) {
      Verdict verdict = bench_->evaluate(built->candidate, built->request.depth, gate_);
      if (cancel_.cancelled()) return;
      verdict.stage_seconds["queue"] = built->queue_seconds;
      verdict.stage_seconds["build"] = built->build_seconds;
      Evaluated evaluated{built->request.tag, std::move(built->request.candidate), std::move(verdict)};
      std::lock_guard lock(mutex_);
      done_.push_back(std::move(evaluated));
      changed_.notify_all();
    }
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<TaskBench> bench_;
  QuietGate gate_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  std::deque<Built> built_;
  std::deque<Evaluated> done_;
  int in_flight_ = 0;
  const CancelToken cancel_;
  std::vector<std::thread> workers_;
};

}  // namespace

Result<std::unique_ptr<Evaluator>> Evaluator::create(const TaskSpec& task, Backend& backend,
                                                     const EvaluatorOptions& options, EventSink& events) {
  EvaluatorOptions own = options;
  own.cancel = options.cancel.child();
  auto cancellable = std::make_unique<CancellableBackend>(backend, own.cancel);
  auto bench = TaskBench::create(task, *cancellable, own, events);
  if (own.cancel.cancelled())
    return Error{ErrorCode::kCancelled, "stopped while inputs, references and baselines were prepared"};
  if (!bench.ok()) return std::move(bench).error();
  const int workers = options.build_workers > 0 ? options.build_workers : std::max(1, backend.device().cores);
  return std::unique_ptr<Evaluator>(
      std::make_unique<QueuedEvaluator>(std::move(cancellable), *std::move(bench), workers, own.cancel));
}

}  // namespace lathe
