#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace lathe::serve {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kCachedTasks = 256;
constexpr std::size_t kChangesOfATurn = 1024;

/// Something to do: `record` in the turn's transaction, then `settle`, which is told how that went.
struct Change {
  std::function<Status(LedgerWriter&)> record;  ///< may be empty
  std::function<void(const Status&)> settle;
};

/// An unfinished evaluation: who waits for it.
struct Active {
  EvaluationKey key;
  std::string trace;
  WorkItem item;
  std::map<std::string, std::int64_t> deadlines_ns;  ///< by client
  int killed_workers = 0;                            ///< WorkerEnd::kKilled
};

struct Worker {
  WorkerHello hello;
  std::shared_ptr<WorkerLink> link;
  std::map<std::int64_t, Digest> in_hand;  ///< by lease
  bool leaves = false;
  double busy_seconds = 0;
  double busy_share = 0;
  std::int64_t beat_ns = 0;
};

struct Waiter {
  std::string client;
  std::optional<Digest> id;  ///< nullopt: for the next that finishes after `sequence`
  std::int64_t sequence = 0;
  int limit = 0;
  std::int64_t until_ns = 0;
  std::function<void(Service::Found)> found = {};
  std::function<void(Service::Reports)> reports = {};
};

std::string_view name(Admission admission) {
  switch (admission) {
    case Admission::kNew:
      return "new";
    case Admission::kJoined:
      return "joined";
    case Admission::kKnown:
      return "known";
    case Admission::kRefused:
      return "refused";
  }
  return "";
}

Verdict verdict_of_lost_workers(const EvaluationKey& key, int lost) {
  Verdict verdict;
  verdict.outcome = Outcome::kCrash;
  verdict.reason = "worker_killed";
  verdict.detail = fmt::format("{} workers ended while they evaluated this candidate", lost);
  verdict.depth = key.depth;
  verdict.candidate = key.candidate;
  verdict.task = key.task;
  verdict.provenance.device_kind = key.device_kind;
  verdict.provenance.gym_version = key.gym_version;
  return verdict;
}

class TheService final : public Service {
 public:
  TheService(Ledger& ledger, WorkQueue& queue, const Clock& clock, const ServiceOptions& options,
             EventSink& events)
      : ledger_(ledger), queue_(queue), clock_(clock), options_(options), events_(events) {}

  Status resume() {
    if (!options_.gym_version.empty()) LATHE_CHECK_OK(end_outdated());
    LATHE_TRY(const auto pending, ledger_.pending());
    const std::int64_t now = clock_.now_ns(), now_unix = unix_milliseconds();
    for (const Pending& one : pending) {
      const Submission& submission = one.submission;
      const std::int64_t age_ms = std::max<std::int64_t>(0, now_unix - submission.submitted_unix_ms);
      LATHE_CHECK_OK(enter(submission, now - age_ms * 1'000'000, one.lost_workers));
    }
    if (!pending.empty())
      log(Severity::kInfo, "serve.resumed", fmt::format("{} unfinished requests", pending.size()), {});
    return Ok{};
  }

  /// What an older version of the gym was asked has nobody left to answer it.
  Status end_outdated() {
    LATHE_TRY(const auto pending, ledger_.pending());
    return ledger_.write([&](LedgerWriter& writer) -> Status {
      const Conclusion outdated{
          .state = State::kFailed, .verdict = {}, .error = "the gym has been updated since: submit it again"};
      for (const Pending& one : pending) {
        if (one.submission.key.gym_version == options_.gym_version) continue;
        LATHE_TRY([[maybe_unused]] const bool first,
                  writer.conclude(one.submission.key.id(), outdated, unix_milliseconds()));
      }
      return Ok{};
    });
  }

  void submit(Batch batch, std::function<void(Receipts)> done) override {
    struct Work {
      Batch batch;
      std::function<void(Receipts)> done;
      std::vector<Result<Receipt>> receipts = {};
    };
    auto work = std::make_shared<Work>(Work{std::move(batch), std::move(done)});
    post({[this, work](LedgerWriter& writer) -> Status {
            for (const StoredTask& task : work->batch.tasks) LATHE_CHECK_OK(writer.add_task(task));
            for (const Submission& submission : work->batch.submissions) {
              const std::int64_t own = unfinished_[submission.client] + entered_[submission.client];
              const std::int64_t all = all_unfinished_ + all_entered_;
              const bool room = own < work->batch.max_unfinished && all < options_.max_unfinished;
              LATHE_TRY(const Admission admission, writer.admit(submission, room));
              if (admission == Admission::kRefused) {
                work->receipts.push_back(Error{ErrorCode::kBusy, "the queue is full", "try again later"});
                continue;
              }
              if (admission != Admission::kKnown) {
                ++entered_[submission.client];
                ++all_entered_;
              }
              work->receipts.push_back(Receipt{submission.key.id(), admission});
            }
            return Ok{};
          },
          [this, work](const Status& written) {
            if (!written.ok()) return work->done(written.error());
            for (std::size_t i = 0; i < work->receipts.size(); ++i) {
              const auto& receipt = work->receipts[i];
              const Submission& submission = work->batch.submissions[i];
              const Admission admission = receipt.ok() ? receipt->admission : Admission::kRefused;
              ++counts_.admissions[std::string(name(admission))];
              if (!receipt.ok()) continue;
              if (admission == Admission::kKnown) {
                notify(submission.client, receipt->id);
                continue;
              }
              (void)enter(submission, clock_.now_ns(), 0);
              log(Severity::kDebug, "serve.queued", "",
                  {{"request", submission.trace},
                   {"evaluation", receipt->id.hex()},
                   {"client", submission.client},
                   {"admission", std::string(name(admission))}});
            }
            work->done(std::move(work->receipts));
          }});
  }

  void find(std::string client, Digest id, std::function<void(Found)> done) override {
    post({{}, [this, client = std::move(client), id, done = std::move(done)](const Status&) {
            done(found(client, id));
          }});
  }

  std::int64_t wait_for(std::string client, Digest id, double seconds,
                        std::function<void(Found)> done) override {
    const std::int64_t number = ++last_waiter_;
    post({{}, [this, number, seconds, client = std::move(client), id, done = std::move(done)](const Status&) {
            Found report = found(client, id);
            const bool waits = report.ok() && *report && !is_final((*report)->state);
            if (!waits || seconds <= 0) return done(std::move(report));
            waiters_of_[{client, id}].insert(number);
            add_waiter(number, seconds, {.client = client, .id = id, .found = done});
          }});
    return number;
  }

  std::int64_t wait_for_next(std::string client, std::int64_t sequence, int limit, double seconds,
                             std::function<void(Reports)> done) override {
    const std::int64_t number = ++last_waiter_;
    post({{},
          [this, number, seconds, client = std::move(client), sequence, limit,
           done = std::move(done)](const Status&) {
            Reports reports = ledger_.finished_after(client, sequence, limit);
            if (!reports.ok() || !reports->empty() || seconds <= 0) return done(std::move(reports));
            listeners_of_[client].insert(number);
            add_waiter(number, seconds,
                       {.client = client, .sequence = sequence, .limit = limit, .reports = done});
          }});
    return number;
  }

  void stop_waiting(std::int64_t number) override {
    post({{}, [this, number](const Status&) { (void)take_waiter(number); }});
  }

  void cancel(std::string client, Digest id, std::function<void(Result<bool>)> done) override {
    withdraw(client, id, State::kCancelled, std::move(done));
  }

  void counts(std::function<void(Result<ServiceCounts>)> done) override {
    post({{}, [this, done = std::move(done)](const Status&) {
            auto queue = queue_.counts();
            if (!queue.ok()) return done(queue.error());
            ServiceCounts now = counts_;
            now.queue = *std::move(queue);
            now.unfinished_requests = all_unfinished_;
            for (const auto& [name, worker] : workers_)
              now.workers.push_back({name, worker.hello.device_name, static_cast<int>(worker.in_hand.size()),
                                     worker.busy_share});
            now.ready = !workers_.empty() && last_write_worked_ && !draining_;
            done(std::move(now));
          }});
  }

  void worker_joined(std::string name, WorkerHello hello, std::shared_ptr<WorkerLink> link) override {
    post({{}, [this, name = std::move(name), hello = std::move(hello), link](const Status&) {
            (void)queue_.renew(name);
            log(Severity::kInfo, "serve.worker_joined", hello.device_name, {{"worker", name}});
            Worker& worker = workers_[name];
            worker.hello = hello;
            worker.link = link;
            worker.beat_ns = clock_.now_ns();
          }});
  }

  void worker_said(std::string name, WorkerMessage message) override {
    if (auto* answer = std::get_if<WorkerAnswer>(&message)) return take_answer(name, std::move(*answer));
    post({{}, [this, name = std::move(name), message = std::move(message)](const Status&) {
            const auto found = workers_.find(name);
            if (found == workers_.end()) return;
            Worker& worker = found->second;
            if (std::holds_alternative<WorkerLeaves>(message)) worker.leaves = true;
            if (const auto* beat = std::get_if<WorkerBeat>(&message)) {
              (void)queue_.renew(name);
              const double seconds = static_cast<double>(clock_.now_ns() - worker.beat_ns) * 1e-9;
              if (seconds > 0)
                worker.busy_share = std::clamp((beat->busy_seconds - worker.busy_seconds) / seconds, 0., 1.);
              worker.busy_seconds = beat->busy_seconds;
              worker.beat_ns = clock_.now_ns();
            }
          }});
  }

  void worker_ended(std::string name, WorkerEnd end) override {
    auto concluded = std::make_shared<std::vector<std::pair<Digest, Conclusion>>>();
    post({[this, name, end, concluded](LedgerWriter& writer) -> Status {
            const auto worker = workers_.find(name);
            if (worker == workers_.end() || end == WorkerEnd::kAsked || worker->second.leaves) return Ok{};
            for (const auto& [lease, id] : worker->second.in_hand) {
              const auto active = active_.find(id);
              const bool killed = end == WorkerEnd::kKilled;
              if (killed && active != active_.end() &&
                  ++active->second.killed_workers < options_.most_killed_workers)
                continue;
              LATHE_TRY(const int lost, writer.count_lost_worker(id));
              if (active == active_.end() || (!killed && lost < options_.most_lost_workers)) continue;
              const Conclusion conclusion{.verdict = verdict_of_lost_workers(active->second.key, lost)};
              LATHE_TRY(const bool first, writer.conclude(id, conclusion, unix_milliseconds()));
              if (first) concluded->emplace_back(id, conclusion);
            }
            return Ok{};
          },
          [this, name, end, concluded](const Status& written) {
            const auto worker = workers_.find(name);
            if (worker == workers_.end()) return;
            const bool lost = end != WorkerEnd::kAsked && !worker->second.leaves;
            if (lost) ++counts_.lost_workers;
            log(lost ? Severity::kWarning : Severity::kInfo, "serve.worker_ended",
                fmt::format("{} evaluations wait again", worker->second.in_hand.size()), {{"worker", name}});
            workers_.erase(worker);
            (void)queue_.release(name, lost);
            if (!written.ok()) return;
            for (const auto& [id, conclusion] : *concluded) {
              (void)queue_.drop(id);
              on_concluded(id, conclusion);
            }
          }});
  }

  void drain() override {
    post({{}, [this](const Status&) { draining_ = true; }});
  }
  bool is_idle() const override { return in_hand_ == 0; }

  void turn(double wait_seconds) override {
    std::deque<Change> changes;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait_for(lock, std::chrono::duration<double>(wait_seconds), [&] { return !inbox_.empty(); });
      if (inbox_.size() <= kChangesOfATurn) {
        changes.swap(inbox_);
      } else {
        for (std::size_t i = 0; i < kChangesOfATurn; ++i) {
          changes.push_back(std::move(inbox_.front()));
          inbox_.pop_front();
        }
      }
    }
    const Status written = record(changes);
    for (const Change& change : changes) change.settle(written);
    const std::int64_t now = clock_.now_ns();
    if (now - ticked_ns_ >= static_cast<std::int64_t>(options_.tick_seconds * 1e9)) {
      ticked_ns_ = now;
      tick(now);
    }
    dispatch();
    std::size_t in_hand = 0;
    for (const auto& [name, worker] : workers_) in_hand += worker.in_hand.size();
    in_hand_ = in_hand;
  }

 private:
  void post(Change change) {
    {
      std::lock_guard lock(mutex_);
      inbox_.push_back(std::move(change));
    }
    arrived_.notify_one();
  }

  Status record(const std::deque<Change>& changes) {
    if (std::none_of(changes.begin(), changes.end(), [](const Change& change) { return !!change.record; }))
      return Ok{};
    entered_.clear();
    all_entered_ = 0;
    const Status written = ledger_.write([&](LedgerWriter& writer) -> Status {
      for (const Change& change : changes)
        if (change.record) LATHE_CHECK_OK(change.record(writer));
      return Ok{};
    });
    last_write_worked_ = written.ok();
    if (!written.ok()) {
      ++counts_.write_failures;
      log(Severity::kError, "serve.write_failed", written.error().to_string(), {});
    }
    return written;
  }

  /// A request that the ledger has, unfinished, into memory and queue.
  Status enter(const Submission& submission, std::int64_t since_ns, int lost_workers) {
    const Digest id = submission.key.id();
    const auto [active, is_new] = active_.try_emplace(id);
    if (is_new) {
      active->second.key = submission.key;
      active->second.trace = submission.trace;
      active->second.item = {.id = id,
                             .task = submission.key.task,
                             .kind = {submission.key.device_kind, submission.key.gym_version},
                             .client = submission.client,
                             .priority = submission.priority,
                             .waiting_since_ns = since_ns,
                             .lost_workers = lost_workers};
    }
    std::int64_t deadline_ns = kNever;
    if (submission.deadline_unix_ms > 0)
      deadline_ns = clock_.now_ns() + (submission.deadline_unix_ms - unix_milliseconds()) * 1'000'000;
    const auto [deadline, joins] = active->second.deadlines_ns.try_emplace(submission.client, deadline_ns);
    if (joins) {
      ++unfinished_[submission.client];
      ++all_unfinished_;
      if (deadline_ns != kNever) deadlines_.emplace(deadline_ns, submission.client, id);
    }
    return is_new ? queue_.add(active->second.item) : Ok{};
  }

  void leave(const std::string& client, const Digest& id, std::int64_t deadline_ns) {
    deadlines_.erase({deadline_ns, client, id});
    --all_unfinished_;
    if (const auto count = unfinished_.find(client); --count->second == 0) unfinished_.erase(count);
  }

  Found found(const std::string& client, const Digest& id) {
    LATHE_TRY(auto report, ledger_.find(client, id));
    if (report && report->state == State::kQueued) {
      LATHE_TRY(const bool leased, queue_.is_leased(id));
      if (leased) report->state = State::kRunning;
    }
    return report;
  }

  void add_waiter(std::int64_t number, double seconds, Waiter waiter) {
    waiter.until_ns = clock_.now_ns() + static_cast<std::int64_t>(seconds * 1e9);
    waits_.emplace(waiter.until_ns, number);
    waiters_.emplace(number, std::move(waiter));
  }

  std::optional<Waiter> take_waiter(std::int64_t number) {
    const auto found = waiters_.find(number);
    if (found == waiters_.end()) return std::nullopt;
    std::optional<Waiter> waiter(std::move(found->second));
    waiters_.erase(found);
    waits_.erase({waiter->until_ns, number});
    if (waiter->id) {
      const auto group = waiters_of_.find({waiter->client, *waiter->id});
      group->second.erase(number);
      if (group->second.empty()) waiters_of_.erase(group);
    } else {
      const auto group = listeners_of_.find(waiter->client);
      group->second.erase(number);
      if (group->second.empty()) listeners_of_.erase(group);
    }
    return waiter;
  }

  /// Tells those who wait that a client's request is final.
  void notify(const std::string& client, const Digest& id) {
    if (const auto group = waiters_of_.find({client, id}); group != waiters_of_.end()) {
      const Found report = found(client, id);
      for (const std::int64_t number : std::set(group->second))
        if (const auto waiter = take_waiter(number)) waiter->found(report);
    }
    if (const auto group = listeners_of_.find(client); group != listeners_of_.end())
      for (const std::int64_t number : std::set(group->second)) due_listeners_.insert(number);
  }

  void notify_listeners() {
    for (const std::int64_t number : std::exchange(due_listeners_, {})) {
      const auto found = waiters_.find(number);
      if (found == waiters_.end()) continue;
      Reports reports =
          ledger_.finished_after(found->second.client, found->second.sequence, found->second.limit);
      if (reports.ok() && reports->empty()) continue;
      if (const auto waiter = take_waiter(number)) waiter->reports(std::move(reports));
    }
  }

  void on_concluded(const Digest& id, const Conclusion& conclusion) {
    const bool done = conclusion.state == State::kDone;
    const std::string outcome(done ? lathe::name(conclusion.verdict.outcome) : serve::name(conclusion.state));
    ++(done ? counts_.verdicts : counts_.unanswered)[outcome];
    const auto active = active_.find(id);
    if (active == active_.end()) return;
    const double seconds = static_cast<double>(clock_.now_ns() - active->second.item.waiting_since_ns) * 1e-9;
    count_stage("total", seconds);
    for (const auto& [stage, stage_seconds] : conclusion.verdict.stage_seconds)
      count_stage(stage, stage_seconds);
    log(Severity::kInfo, "serve.concluded", outcome,
        {{"request", active->second.trace},
         {"evaluation", id.hex()},
         {"reason", conclusion.verdict.reason},
         {"seconds", fmt::format("{:.4f}", seconds)}});
    const auto clients = std::move(active->second.deadlines_ns);
    active_.erase(active);
    for (const auto& [client, deadline] : clients) leave(client, id, deadline);
    for (const auto& [client, deadline] : clients) notify(client, id);
  }

  void count_stage(const std::string& stage, double seconds) {
    ServiceCounts::Histogram& histogram = counts_.stages[stage];
    histogram.buckets.resize(std::size(kStageBounds) + 1);
    const auto* bound = std::lower_bound(std::begin(kStageBounds), std::end(kStageBounds), seconds);
    ++histogram.buckets[static_cast<std::size_t>(bound - std::begin(kStageBounds))];
    histogram.sum += seconds;
  }

  void take_answer(const std::string& name, WorkerAnswer answer) {
    struct Work {
      std::string name;
      WorkerAnswer answer;
      Digest id = {};
      std::optional<Conclusion> conclusion = {};
      bool wrong = false;  ///< it is about something else than was asked
      bool first = false;
    };
    auto work = std::make_shared<Work>(Work{name, std::move(answer)});
    post({[this, work](LedgerWriter& writer) -> Status {
            const auto worker = workers_.find(work->name);
            if (worker == workers_.end()) return Ok{};
            const auto held = worker->second.in_hand.find(work->answer.lease);
            if (held == worker->second.in_hand.end()) return Ok{};
            work->id = held->second;
            const auto active = active_.find(work->id);
            if (active == active_.end()) return Ok{};
            work->wrong = !answers(work->answer, active->second.key);
            if (!work->wrong) work->conclusion = conclusion_of(work->answer);
            if (!work->conclusion) return Ok{};
            LATHE_TRY(work->first, writer.conclude(work->id, *work->conclusion, unix_milliseconds()));
            return Ok{};
          },
          [this, work](const Status& written) {
            const auto worker = workers_.find(work->name);
            if (worker == workers_.end() || work->id == Digest{}) {
              ++counts_.late_answers;
              return;
            }
            if (!written.ok()) {  // the answer is kept until the disk takes it
              unwritten_.push_back([this, work] { take_answer(work->name, std::move(work->answer)); });
              return;
            }
            if (work->wrong) {  // this worker can't be believed; it is lost to all that it has in hand
              ++counts_.refused_answers;
              worker->second.link->end();
              return;
            }
            worker->second.in_hand.erase(work->answer.lease);
            if (!work->conclusion) return give_up(work->name, work->id, work->answer);
            double seconds = 0;
            for (const auto& [stage, stage_seconds] : work->conclusion->verdict.stage_seconds)
              if (stage != "queue") seconds += stage_seconds;
            const auto held = queue_.finish(work->answer.lease, seconds);
            if (held.ok() && !*held) ++counts_.late_answers;
            if (!work->first) return;
            stop_work(work->id);  // where the lease was over: another worker has it, or it waits
            on_concluded(work->id, *work->conclusion);
          }});
  }

  static bool answers(const WorkerAnswer& answer, const EvaluationKey& key) {
    return !answer.verdict ||
           (answer.verdict->task == key.task && answer.verdict->candidate == key.candidate &&
            answer.verdict->depth == key.depth);
  }

  /// What an answer means for the evaluation; nothing where it has to be done again.
  static std::optional<Conclusion> conclusion_of(const WorkerAnswer& answer) {
    if (answer.verdict) return Conclusion{.verdict = *answer.verdict};
    if (answer.error.code == ErrorCode::kCancelled || answer.error.code == ErrorCode::kTimeout)
      return std::nullopt;
    const bool of_the_task = answer.error.code == ErrorCode::kInvalid;
    return Conclusion{.state = State::kFailed,
                      .verdict = {},
                      .error = of_the_task ? answer.error.message : "the task could not be prepared"};
  }

  /// A worker has no answer. Where the evaluation is still wanted it begins anew, with this worker
  /// or another.
  void give_up(const std::string& name, const Digest& id, const WorkerAnswer& answer) {
    const auto active = active_.find(id);
    const auto held = queue_.finish(answer.lease, 0);
    if (active == active_.end() || !held.ok() || !*held) return;
    const Active& wanted = active->second;
    log(Severity::kWarning, "serve.no_answer", answer.error.message,
        {{"request", wanted.trace}, {"evaluation", id.hex()}, {"worker", name}});
    (void)queue_.add(wanted.item);
  }

  void withdraw(const std::string& client, const Digest& id, State state,
                std::function<void(Result<bool>)> done) {
    auto withdrawal = std::make_shared<Withdrawal>();
    post({[client, id, state, withdrawal](LedgerWriter& writer) -> Status {
            LATHE_TRY(*withdrawal, writer.withdraw(client, id, state, unix_milliseconds()));
            return Ok{};
          },
          [this, client, id, state, withdrawal, done = std::move(done)](const Status& written) {
            if (!written.ok()) {
              if (done) return done(written.error());
              unwritten_.push_back([this, client, id, state] { withdraw(client, id, state, {}); });
              return;
            }
            if (withdrawal->withdrawn) on_withdrawn(client, id, state, withdrawal->unwanted);
            if (done) done(withdrawal->withdrawn);
          }});
  }

  void on_withdrawn(const std::string& client, const Digest& id, State state, bool unwanted) {
    ++counts_.unanswered[std::string(serve::name(state))];
    if (const auto active = active_.find(id); active != active_.end()) {
      if (const auto own = active->second.deadlines_ns.find(client);
          own != active->second.deadlines_ns.end()) {
        leave(client, id, own->second);
        active->second.deadlines_ns.erase(own);
      }
      if (unwanted) {
        active_.erase(active);
        stop_work(id);
      }
    }
    notify(client, id);
  }

  void stop_work(const Digest& id) {
    const auto lease = queue_.drop(id);
    if (!lease.ok() || *lease == 0) return;
    for (auto& [name, worker] : workers_)
      if (worker.in_hand.contains(*lease)) worker.link->send(CancelOrder{*lease});
  }

  void tick(std::int64_t now) {
    if (const auto silent = queue_.silent_workers(); silent.ok()) {
      for (const std::string& name : *silent) {
        const auto worker = workers_.find(name);
        if (worker != workers_.end()) {
          log(Severity::kWarning, "serve.lease_expired", "the worker is silent", {{"worker", name}});
          worker->second.link->end();
          worker_ended(name, WorkerEnd::kFailed);
        } else {
          (void)queue_.release(name, true);
        }
      }
    }
    while (!deadlines_.empty() && std::get<0>(*deadlines_.begin()) <= now) {
      const auto [due, client, id] = *deadlines_.begin();
      deadlines_.erase(deadlines_.begin());
      withdraw(client, id, State::kExpired, {});
    }
    while (!waits_.empty() && waits_.begin()->first <= now) {
      const auto waiter = take_waiter(waits_.begin()->second);
      if (waiter->id) {
        waiter->found(found(waiter->client, *waiter->id));
      } else {
        waiter->reports(std::vector<Report>());
      }
    }
    for (const auto& again : std::exchange(unwritten_, {})) again();
  }

  void dispatch() {
    notify_listeners();
    if (draining_) return;
    for (auto& [name, worker] : workers_) {
      if (worker.leaves) continue;
      const int room = worker.hello.slots - static_cast<int>(worker.in_hand.size());
      if (room <= 0) continue;
      const auto leases = queue_.take(name, worker.hello.kind, room);
      if (!leases.ok()) continue;
      for (const Lease& lease : *leases) {
        const auto order = order_for(lease);
        if (!order.ok()) {
          log(Severity::kError, "serve.no_order", order.error().to_string(),
              {{"evaluation", lease.item.id.hex()}});
          continue;
        }
        worker.in_hand[lease.number] = lease.item.id;
        worker.link->send(*order);
      }
    }
  }

  Result<FrontMessage> order_for(const Lease& lease) {
    const Active& active = active_.at(lease.item.id);
    WorkOrder order;
    order.lease = lease.number;
    order.id = lease.item.id;
    order.trace = active.trace;
    LATHE_TRY(const StoredTask task, task_of(active.key.task));
    order.task = task.digest;
    order.task_name = task.name;
    order.task_text = task.text;
    LATHE_TRY(order.candidate, ledger_.candidate(lease.item.id));
    order.depth = active.key.depth;
    const std::int64_t now = clock_.now_ns();
    std::int64_t latest = 0;
    for (const auto& [client, deadline] : active.deadlines_ns) latest = std::max(latest, deadline);
    if (latest != kNever) order.deadline_seconds = std::max(1e-3, static_cast<double>(latest - now) * 1e-9);
    return FrontMessage(std::move(order));
  }

  Result<StoredTask> task_of(const Digest& digest) {
    if (const auto cached = tasks_.find(digest); cached != tasks_.end()) return cached->second;
    LATHE_TRY(auto task, ledger_.task(digest));
    if (!task) return Error{ErrorCode::kNotFound, "there is no task " + digest.hex()};
    if (tasks_.size() >= kCachedTasks) tasks_.erase(tasks_.begin());
    return tasks_.emplace(digest, *std::move(task)).first->second;
  }

  void log(Severity severity, const char* kind, std::string text, std::map<std::string, std::string> fields) {
    events_.on_event({severity, kind, std::move(text), std::move(fields)});
  }

  Ledger& ledger_;
  WorkQueue& queue_;
  const Clock& clock_;
  const ServiceOptions options_;
  EventSink& events_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Change> inbox_;
  std::atomic<std::int64_t> last_waiter_{0};
  std::atomic<std::size_t> in_hand_{0};

  // Of the thread that calls turn():
  std::map<Digest, Active> active_;
  std::map<std::string, Worker> workers_;
  std::map<std::string, std::int64_t> unfinished_, entered_;
  std::int64_t all_unfinished_ = 0, all_entered_ = 0;
  std::set<std::tuple<std::int64_t, std::string, Digest>> deadlines_;
  std::map<std::int64_t, Waiter> waiters_;
  std::set<std::pair<std::int64_t, std::int64_t>> waits_;  // until when, number
  std::map<std::pair<std::string, Digest>, std::set<std::int64_t>> waiters_of_;
  std::map<std::string, std::set<std::int64_t>> listeners_of_;
  std::set<std::int64_t> due_listeners_;
  std::vector<std::function<void()>> unwritten_;
  std::map<Digest, StoredTask> tasks_;
  ServiceCounts counts_;
  std::int64_t ticked_ns_ = 0;
  bool last_write_worked_ = true;
  bool draining_ = false;
};

}  // namespace

std::int64_t unix_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<std::unique_ptr<Service>> Service::start(Ledger& ledger, WorkQueue& queue, const Clock& clock,
                                                const ServiceOptions& options, EventSink& events) {
  auto service = std::make_unique<TheService>(ledger, queue, clock, options, events);
  LATHE_CHECK_OK(service->resume());
  return std::unique_ptr<Service>(std::move(service));
}

}  // namespace lathe::serve
