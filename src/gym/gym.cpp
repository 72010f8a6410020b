#include "gym/gym.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/guard.h"
#include "gym/cancellable.h"
#include "gym/task_bench.h"

namespace lathe {
namespace {

constexpr auto kTick = std::chrono::milliseconds(10);  // tokens and deadlines wake nobody
constexpr double kLongWaitSeconds = 5;                 // for other processes, before a word of it

// Contexts take another quarter, what launchers have mapped of tasks that went a third one, and the
// tasks that are prepared meanwhile what is left.
constexpr std::int64_t kShareOfDevice = 4;

std::int64_t half_of_memory() {
  return static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE) / 2;
}

/// A task that is being prepared or is ready.
struct Task {
  std::shared_ptr<const TaskSpec> spec;
  std::unique_ptr<TaskBench> bench;  ///< once ready
  std::optional<Error> error;        ///< once preparing it has failed
  int jobs = 0;                      ///< unfinished ones
  double prepare_seconds = 0;        ///< that no evaluation has been charged with yet
  std::int64_t used_ns = 0;

  bool settled() const { return bench || error; }
};

/// One client's side.
struct Inbox {
  std::deque<Evaluated> done;
  int in_flight = 0;
  bool closed = false;
};

/// A request on its way.
struct Job {
  EvaluationRequest request;
  std::optional<Candidate> candidate;
  std::shared_ptr<Inbox> inbox;
  std::shared_ptr<Task> task;
  Ticket ticket = 0;
  std::int64_t submitted_ns = 0;
  CancelToken token;  ///< what the work for it listens to
  bool finished = false;
  std::int64_t judged_since_ns = 0;         ///< 0: not yet
  double waited_before = 0;                 ///< the lane's waited_seconds() then
  std::atomic<std::int64_t> waited_ns = 0;  ///< of its blocks, for other evaluations'
  CancelToken judging = {};                 ///< ends with `token`, or when the evaluation takes too long
  BuiltCandidate built = {};
  double queue_seconds = 0, prepare_seconds = 0, build_seconds = 0;
};
using JobPtr = std::shared_ptr<Job>;

struct Urgency {
  bool operator()(const JobPtr& a, const JobPtr& b) const {
    if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
    return a->ticket < b->ticket;
  }
};
using JobQueue = std::set<JobPtr, Urgency>;

/// The verdict on a text for which an error came before any verdict of the bench.
Verdict without_evidence(const EvaluationRequest& request, Outcome outcome, std::string reason,
                         const Error& error) {
  Verdict verdict;
  verdict.outcome = outcome;
  verdict.reason = std::move(reason);
  verdict.detail = error.to_string();
  verdict.depth = request.depth;
  verdict.candidate = digest_of(request.text);
  verdict.task = request.task->digest;
  verdict.text_bytes = static_cast<std::int64_t>(request.text.size());
  return verdict;
}

/// What the machine could not do, out of memory perhaps, is not the candidate's fault.
Verdict machine_failed(const EvaluationRequest& request, const Error& error) {
  return without_evidence(request, Outcome::kInfra, "gym_infra", error);
}

class LocalGym;

class LocalEvaluator final : public Evaluator {
 public:
  explicit LocalEvaluator(LocalGym& gym) : gym_(gym) {}
  ~LocalEvaluator() override;
  Result<Ticket> submit(EvaluationRequest request) override;
  std::optional<Evaluated> poll(double timeout_seconds) override;
  int in_flight() const override;
  void prepare(std::shared_ptr<const TaskSpec> task) override;
  Result<TaskBaselines> baselines(std::shared_ptr<const TaskSpec> task, const CancelToken& cancel) override;

 private:
  LocalGym& gym_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
};

/// The way of a request:
///
///   submit -> its task is prepared -> [to_build] -> builder -> [to_judge] -> lane: verify, time -> done ->
///   poll
///
/// Preparers, builders and lanes are threads, each taking the most urgent of its queue. One mutex
/// guards all that they share; a watchman ends requests that were cancelled or are late.
class LocalGym final : public Gym {
 public:
  LocalGym(Backend& backend, const GymOptions& options, EventSink& events)
      : backend_(backend),
        options_(options),
        task_memory_{options.task_memory_bytes > 0 ? options.task_memory_bytes : half_of_memory(),
                     backend.device().memory_bytes / kShareOfDevice},
        events_(events),
        stop_(options.cancel.child()) {}

  /// Not in the constructor: where the system gives too few threads, the destructor ends those that
  /// are there.
  void start_threads() {
    const DeviceInfo& device = backend_.device();
    // Lanes that wait for their processors would leave the device idle.
    const int cores_for_builds = device.lanes > 1 ? device.cores / 2 : device.cores;
    const int builders = options_.build_workers > 0 ? options_.build_workers : std::max(1, cores_for_builds);
    const int lanes = options_.lanes > 0 ? options_.lanes : std::max({1, device.lanes, device.evaluations});
    const int preparers = device.lanes > 1 ? 2 : 1;
    for (int i = 0; i < builders; ++i) threads_.emplace_back([this] { build_loop(); });
    for (int i = 0; i < lanes; ++i) threads_.emplace_back([this] { judge_loop(); });
    for (int i = 0; i < preparers; ++i) threads_.emplace_back([this] { prepare_loop(); });
    threads_.emplace_back([this] { watch(); });
  }

  ~LocalGym() override {
    {
      std::lock_guard lock(mutex_);
      stop_.cancel();
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  std::unique_ptr<Evaluator> connect() override { return std::make_unique<LocalEvaluator>(*this); }

  /// A text that is no candidate gets its verdict at once: its task need not be prepared.
  Result<Ticket> submit(const std::shared_ptr<Inbox>& inbox, EvaluationRequest request) {
    std::optional<Candidate> candidate;
    std::optional<Verdict> refusal;
    const Status read = without_exceptions([&]() -> Status {
      if (auto one = candidate_of(request); one.ok())
        candidate = *std::move(one);
      else
        refusal = unreadable_verdict(request, one.error());
      return Ok{};
    });
    if (!read.ok()) refusal = machine_failed(request, read.error());
    std::lock_guard lock(mutex_);
    if (inbox->in_flight >= options_.requests_of_client)
      return Error{ErrorCode::kBusy, fmt::format("{} requests are unfinished", inbox->in_flight),
                   "take finished ones first"};
    const Ticket ticket = ++tickets_;
    ++inbox->in_flight;
    if (refusal) {
      inbox->done.push_back({ticket, *std::move(refusal)});
      changed_.notify_all();
      return ticket;
    }
    auto job = std::make_shared<Job>();
    job->request = std::move(request);
    job->candidate = std::move(candidate);
    job->inbox = inbox;
    job->ticket = ticket;
    job->submitted_ns = steady_clock().now_ns();
    job->token = stop_.child();
    job->task = find_task(job->request.task);
    ++job->task->jobs;
    unfinished_.insert(job);
    if (job->task->bench) to_build_.insert(job);
    changed_.notify_all();
    return job->ticket;
  }

  std::optional<Evaluated> poll(Inbox& inbox, double timeout_seconds) {
    const std::int64_t begin_ns = steady_clock().now_ns();
    std::unique_lock lock(mutex_);
    while (inbox.done.empty() && inbox.in_flight > 0 && seconds_since(begin_ns) < timeout_seconds)
      changed_.wait_for(lock, kTick);
    if (inbox.done.empty()) return std::nullopt;
    Evaluated evaluated = std::move(inbox.done.front());
    inbox.done.pop_front();
    --inbox.in_flight;
    return evaluated;
  }

  int in_flight(const Inbox& inbox) const {
    std::lock_guard lock(mutex_);
    return inbox.in_flight;
  }

  void close(Inbox& inbox) {
    std::lock_guard lock(mutex_);
    inbox.closed = true;
    end_unwanted();
    changed_.notify_all();
  }

  void prepare(const std::shared_ptr<const TaskSpec>& spec) {
    std::lock_guard lock(mutex_);
    find_task(spec);
    changed_.notify_all();
  }

  Result<TaskBaselines> baselines(const std::shared_ptr<const TaskSpec>& spec, const CancelToken& cancel) {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Task> task = find_task(spec);
    changed_.notify_all();
    while (!task->settled() && !cancel.cancelled() && !stop_.cancelled()) changed_.wait_for(lock, kTick);
    if (task->bench) return task->bench->baselines();
    if (task->error) return *task->error;
    return stopped_preparing();
  }

 private:
  static Error stopped_preparing() {
    return {ErrorCode::kCancelled, "stopped while inputs, references and baselines were prepared"};
  }

  /// The task of that digest; a new one is queued for preparation.
  std::shared_ptr<Task> find_task(const std::shared_ptr<const TaskSpec>& spec) {
    std::shared_ptr<Task>& task = tasks_[spec->digest];
    if (!task) {
      task = std::make_shared<Task>();
      task->spec = spec;
      to_prepare_.push_back(task);
    }
    task->used_ns = steady_clock().now_ns();
    return task;
  }

  /// Waits for work; null once the gym stops.
  template <class Queue>
  auto take(Queue& queue) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !queue.empty() || stop_.cancelled(); });
    typename Queue::value_type item{};
    if (stop_.cancelled()) return item;
    item = *queue.begin();
    queue.erase(queue.begin());
    return item;
  }

  /// The next task to prepare, once memory has room for it or nothing else is left to do.
  std::shared_ptr<Task> take_task() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_.cancelled() || (!to_prepare_.empty() && has_room()); });
    if (stop_.cancelled()) return nullptr;
    std::shared_ptr<Task> task = to_prepare_.front();
    to_prepare_.pop_front();
    ++preparing_;
    return task;
  }

  bool fits(const MemoryUse& use) const {
    return use.host <= task_memory_.host && (task_memory_.device == 0 || use.device <= task_memory_.device);
  }

  bool has_room() const {
    MemoryUse use;
    bool busy = preparing_ > 0;
    for (const auto& [digest, task] : tasks_) {
      if (!task->bench || task->jobs == 0) continue;  // idle ones make room
      use += task->bench->memory();
      busy = true;
    }
    return !busy || fits(use);
  }

  void prepare_loop() {
    while (const std::shared_ptr<Task> task = take_task()) {
      double seconds = 0;
      auto bench = without_exceptions([&] {
        const Stopwatch watch(seconds);
        return make_bench(task->spec);
      });
      std::lock_guard lock(mutex_);
      --preparing_;
      task->prepare_seconds = seconds;
      settle(*task, std::move(bench));
      changed_.notify_all();
    }
  }

  Result<std::unique_ptr<TaskBench>> make_bench(const std::shared_ptr<const TaskSpec>& spec) {
    TaskBenchOptions options;
    options.secret = options_.secret.derive("task " + spec->digest.hex());
    options.hidden_shapes = options_.hidden_shapes;
    options.inspect_code = options_.inspect_code;
    options.block_timeout_seconds = options_.block_timeout_seconds;
    if (options_.anchors) options.anchors = options_.anchors(*spec);
    return TaskBench::create(spec, backend_, options, stop_, events_);
  }

  void settle(Task& task, Result<std::unique_ptr<TaskBench>> bench) {
    if (bench.ok() && !stop_.cancelled())
      task.bench = *std::move(bench);
    else
      task.error = bench.ok() || stop_.cancelled() ? stopped_preparing() : bench.error();
    task.used_ns = steady_clock().now_ns();
    for (const JobPtr& job : std::vector<JobPtr>(unfinished_.begin(), unfinished_.end())) {
      if (job->task.get() != &task) continue;
      if (task.bench)
        to_build_.insert(job);
      else
        finish(job, *task.error);
    }
    if (task.error) tasks_.erase(task.spec->digest);  // the next request tries again
    evict();
  }

  /// Drops the longest unused of the idle tasks that memory has no room for.
  void evict() {
    MemoryUse use;
    std::vector<std::shared_ptr<Task>> idle;
    for (const auto& [digest, task] : tasks_) {
      if (!task->bench) continue;
      use += task->bench->memory();
      if (task->jobs == 0) idle.push_back(task);
    }
    std::ranges::sort(idle, {}, &Task::used_ns);
    for (std::size_t i = 0; i + 1 < idle.size() && !fits(use); ++i) {
      use -= idle[i]->bench->memory();
      tasks_.erase(idle[i]->spec->digest);
    }
  }

  void build_loop() {
    while (const JobPtr job = take(to_build_)) {
      charge(*job);
      const Status built = without_exceptions([&]() -> Status { return build(*job), Ok{}; });
      std::lock_guard lock(mutex_);
      if (!built.ok())
        finish(job, machine_failed(job->request, built.error()));
      else if (!job->finished)
        to_judge_.insert(job);
      changed_.notify_all();
    }
  }

  /// The first evaluation that a task's preparation lets begin pays for it.
  void charge(Job& job) {
    std::lock_guard lock(mutex_);
    job.prepare_seconds = std::exchange(job.task->prepare_seconds, 0);
    job.queue_seconds = std::max(0.0, seconds_since(job.submitted_ns) - job.prepare_seconds);
  }

  void build(Job& job) {
    const DeviceLane::Lease lease =
        backend_.device().quiet_compiles
            ? DeviceLane::Lease()
            : backend_.lane().take(DeviceLane::Use::kWork, DeviceLane::Grain::kStage, job.token);
    const Stopwatch watch(job.build_seconds);
    CancellableBackend cancellable(backend_, job.token);
    job.built = build_for_shapes(cancellable, *job.candidate, job.task->bench->shapes());
  }

  void judge_loop() {
    while (const JobPtr job = take(to_judge_)) {
      {
        std::lock_guard lock(mutex_);
        job->judging = job->token.child();
        job->judged_since_ns = steady_clock().now_ns();
        job->waited_before = backend_.lane().waited_seconds();
      }
      auto judged = without_exceptions([&]() -> Result<Verdict> {
        return job->task->bench->evaluate(job->built, job->request.depth, backend_, job->judging,
                                          &job->waited_ns);
      });
      Verdict verdict = judged.ok() ? *std::move(judged) : machine_failed(job->request, judged.error());
      if (job->judging.cancelled()) take_too_long(*job, verdict);
      verdict.stage_seconds["queue"] = job->queue_seconds;
      if (job->prepare_seconds > 0) verdict.stage_seconds["prepare"] = job->prepare_seconds;
      verdict.stage_seconds["build"] = job->build_seconds;
      std::lock_guard lock(mutex_);
      finish(job, job->token.cancelled() ? Result<Verdict>(cancelled_error()) : std::move(verdict));
      changed_.notify_all();
    }
  }

  double limit_seconds(const Job& job) const {
    const bool is_long = job.request.depth == Depth::kFinal || job.request.depth == Depth::kProfile;
    return is_long ? options_.final_timeout_seconds : options_.screen_timeout_seconds;
  }

  /// Without what other processes and other evaluations held the device: that is no candidate's
  /// fault.
  double judged_seconds(const Job& job) const {
    return seconds_since(job.judged_since_ns) - (backend_.lane().waited_seconds() - job.waited_before) -
           1e-9 * static_cast<double>(job.waited_ns.load());
  }

  void take_too_long(const Job& job, Verdict& verdict) const {
    verdict.outcome = Outcome::kTimeout;
    verdict.reason = "evaluation";
    verdict.detail = fmt::format("no verdict after {:.3g} s of verifying and timing", limit_seconds(job));
    verdict.timings.clear();
    verdict.speedups.clear();
  }

  void finish(const JobPtr& job, Result<Verdict> result) {
    if (job->finished) return;
    job->finished = true;
    job->token.cancel();
    unfinished_.erase(job);
    to_build_.erase(job);
    to_judge_.erase(job);
    --job->task->jobs;
    if (job->task->jobs == 0) evict();
    job->inbox->done.push_back({job->ticket, std::move(result)});
  }

  /// Ends what nobody waits for any more, and what is late.
  void end_unwanted() {
    const std::int64_t now_ns = steady_clock().now_ns();
    for (const JobPtr& job : std::vector<JobPtr>(unfinished_.begin(), unfinished_.end())) {
      const EvaluationRequest& request = job->request;
      if (stop_.cancelled() || request.cancel.cancelled() || job->inbox->closed)
        finish(job, cancelled_error());
      else if (request.deadline_seconds > 0 &&
               static_cast<double>(now_ns - job->submitted_ns) > 1e9 * request.deadline_seconds)
        finish(job,
               Error{ErrorCode::kTimeout,
                     fmt::format("no verdict within {:.3g} s of its submission", request.deadline_seconds),
                     "give it a later deadline, or fewer requests before it"});
      else if (job->judged_since_ns > 0 && judged_seconds(*job) > limit_seconds(*job))
        job->judging.cancel();
    }
  }

  void watch() {
    if (const std::string& why = backend_.lane().unshared(); !why.empty())
      events_.on_event({Severity::kWarning, "lane.unshared",
                        "other programs may time on this device at the same time: " + why});
    std::unique_lock lock(mutex_);
    for (bool said = false;;) {
      if (!said && backend_.lane().waited_seconds() > kLongWaitSeconds) {
        said = true;
        events_.on_event({Severity::kWarning, "lane.waits",
                          "another program of yours computes or times on this device; they take turns"});
      }
      const std::size_t before = unfinished_.size();
      end_unwanted();
      // Not at every round: whoever wakes for nothing takes a processor from a kernel that is
      // timed.
      if (stop_.cancelled() || unfinished_.size() != before) changed_.notify_all();
      if (stop_.cancelled()) return;
      idle_.wait_for(lock, kTick);
    }
  }

  Backend& backend_;
  const GymOptions options_;
  const MemoryUse task_memory_;
  EventSink& events_;
  const CancelToken stop_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::map<Digest, std::shared_ptr<Task>> tasks_;
  std::deque<std::shared_ptr<Task>> to_prepare_;
  int preparing_ = 0;
  JobQueue unfinished_, to_build_, to_judge_;
  Ticket tickets_ = 0;
  std::vector<std::thread> threads_;
};

LocalEvaluator::~LocalEvaluator() { gym_.close(*inbox_); }

Result<Ticket> LocalEvaluator::submit(EvaluationRequest request) {
  return gym_.submit(inbox_, std::move(request));
}

std::optional<Evaluated> LocalEvaluator::poll(double timeout_seconds) {
  return gym_.poll(*inbox_, timeout_seconds);
}

int LocalEvaluator::in_flight() const { return gym_.in_flight(*inbox_); }

void LocalEvaluator::prepare(std::shared_ptr<const TaskSpec> task) { gym_.prepare(task); }

Result<TaskBaselines> LocalEvaluator::baselines(std::shared_ptr<const TaskSpec> task,
                                                const CancelToken& cancel) {
  return gym_.baselines(task, cancel);
}

}  // namespace

Result<Candidate> candidate_of(const EvaluationRequest& request) {
  if (request.unreadable) return *request.unreadable;
  return parse_candidate(request.text,
                         request.name.empty() ? digest_of(request.text).short_hex() : request.name);
}

Verdict unreadable_verdict(const EvaluationRequest& request, const Error& why) {
  return without_evidence(request, Outcome::kBuildFailed, "bad_candidate", why);
}

Result<Verdict> evaluate_alone(Evaluator& evaluator, EvaluationRequest request) {
  LATHE_TRY(const Ticket ticket, evaluator.submit(std::move(request)));
  for (;;)
    if (auto evaluated = evaluator.poll(1); evaluated && evaluated->ticket == ticket)
      return std::move(evaluated->verdict);
}

std::unique_ptr<Gym> Gym::start(Backend& backend, const GymOptions& options, EventSink& events) {
  auto gym = std::make_unique<LocalGym>(backend, options, events);
  gym->start_threads();
  return gym;
}

}  // namespace lathe
