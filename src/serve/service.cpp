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
constexpr int kAhead = 32;  // evaluations that a front end holds beyond what its workers have in hand
constexpr std::size_t kChangesOfATurn = 1024;
constexpr std::size_t kKeptTextBytes = 64 << 20;
constexpr std::int64_t kOverdueGraceMs = 2000;  // for the front end that has the deadline itself
constexpr double kPauseAfterFailureSeconds = 0.2;
constexpr double kGatherShare = 0.25;  // of a transaction's time, for what comes right behind a turn's first
constexpr double kLongestGatherSeconds = 0.001;
constexpr double kProbeSeconds = 1;  // between attempts to write while nothing else is written
constexpr double kForgetEverySeconds = 60;
constexpr int kForgottenAtOnce = 1000;
constexpr double kLookAgainSeconds = 5;   // for what other front ends' news should have told
constexpr double kWorkerlessSeconds = 2;  // before what is held goes to another front end

/// What was written, and what became of it.
struct Written {
  LedgerChanges& changes;
  const Result<LedgerOutcome>& outcome;
  bool ok() const { return outcome.ok(); }
};

/// Something to do: `record` adds to the turn's transaction, then `settle` is told how that went.
struct Change {
  std::function<void(LedgerChanges&)> record;  ///< may be empty
  std::function<void(const Written&)> settle;
  bool submits = false;
};

/// An unfinished evaluation that the queue has.
struct Active {
  EvaluationKey key;
  std::string trace;
  WorkItem item;
  std::int64_t latest_deadline_ns = 0;  ///< of all that want it
  std::string text = {};                ///< empty: the ledger has it
};

struct Worker {
  WorkerHello hello;
  std::shared_ptr<WorkerLink> link;
  std::map<std::int64_t, Digest> in_hand;  ///< by lease
  bool leaves = false;
  bool ended = false;  ///< its losses are counted
  double busy_seconds = 0;
  double busy_share = 0;
  std::int64_t beat_ns = 0;
  std::map<std::string, double> device_state = {};  ///< while it timed last
};

struct Waiter {
  std::string client;
  std::optional<Digest> id;  ///< nullopt: for the next that finishes after `sequence`
  std::int64_t sequence = 0;
  int limit = 0;
  std::int64_t until_ns = 0;
  bool by_name = false;  ///< told of any news, for its name may have ended alone
  std::function<void(Service::Found)> found = {};
  std::function<void(Service::Reports)> reports = {};
};

struct NamedAsk {
  NameQuery query;
  std::int64_t until_ns = 0;
  std::function<void(Service::FoundNamed)> done;
};

struct Deadline {
  std::int64_t ns = 0;
  std::int64_t unix_ms = 0;
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
    case Admission::kRefusedOwn:
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
      : ledger_(ledger),
        queue_(queue),
        shared_(options.shared),
        clock_(clock),
        options_(options),
        events_(events) {
    if (shared_)
      shared_->on_news([this] {
        {
          std::lock_guard lock(mutex_);
          news_ = true;
        }
        arrived_.notify_one();
      });
  }
  ~TheService() override {
    if (!shared_) return;
    shared_->on_news([] {});
    shared_->leave();
  }

  Status resume() {
    if (shared_) return Ok{};  // the first exchange asks for it
    LATHE_TRY(const auto pending, ledger_.pending());
    LedgerChanges outdated;
    outdated.unix_ms = unix_milliseconds();
    std::size_t resumed = 0;
    for (const Pending& one : pending) {
      if (is_outdated(one, {})) {
        outdated.ends.push_back({one.submission.key.id(), outdated_conclusion()});
        continue;
      }
      LATHE_CHECK_OK(enter(one.submission, one.lost_workers));
      ++resumed;
    }
    if (!outdated.ends.empty()) LATHE_CHECK_OK(ledger_.write(outdated));
    if (resumed > 0)
      log(Severity::kInfo, "serve.resumed", fmt::format("{} unfinished requests", resumed), {});
    return Ok{};
  }

  void submit(Batch batch, std::function<void(Receipts)> done) override {
    struct Work {
      Batch batch;
      std::size_t first = 0;
    };
    auto work = std::make_shared<Work>(Work{std::move(batch)});
    post({[work](LedgerChanges& changes) {
            for (StoredTask& task : work->batch.tasks) changes.tasks.push_back(std::move(task));
            work->first = changes.submissions.size();
            for (Submission& submission : work->batch.submissions)
              changes.submissions.push_back({std::move(submission), work->batch.max_unfinished});
          },
          [this, work, done = std::move(done)](const Written& written) {
            if (!written.ok()) return done(written.outcome.error());
            std::vector<Result<Receipt>> receipts;
            for (std::size_t i = 0; i < work->batch.submissions.size(); ++i) {
              Submission& submission = written.changes.submissions[work->first + i].submission;
              const Admission admission = written.outcome->submissions[work->first + i];
              ++counts_.admissions[std::string(name(admission))];
              if (is_refused(admission)) {
                receipts.push_back(refusal(admission, work->batch.max_unfinished));
                continue;
              }
              receipts.push_back(Receipt{submission.key.id(), admission});
              submission.deadline_unix_ms = written.outcome->deadlines_unix_ms[work->first + i];
              on_admitted(submission, admission);
            }
            done(std::move(receipts));
          },
          true});
  }

  void find(std::string client, Digest id, std::function<void(Found)> done) override {
    post({{}, [this, client = std::move(client), id, done = std::move(done)](const Written&) {
            asks_[{client, id}].push_back(done);
          }});
  }

  std::int64_t wait_for(std::string client, Digest id, double seconds,
                        std::function<void(Found)> done) override {
    const std::int64_t number = ++last_waiter_;
    if (settling_ == std::this_thread::get_id() && seconds > 0 && admitted_.contains({client, id})) {
      waiters_of_[id][client].insert(number);
      add_waiter(number, seconds, {.client = std::move(client), .id = id, .found = std::move(done)});
      return number;
    }
    post(
        {{}, [this, number, seconds, client = std::move(client), id, done = std::move(done)](const Written&) {
           asks_[{client, id}].push_back([this, number, seconds, client, id, done](Found report) {
             if (stopped_.contains(number)) return;
             const bool waits = report.ok() && *report && !is_final((*report)->state);
             if (!waits || seconds <= 0) return done(std::move(report));
             waiters_of_[id][client].insert(number);
             add_waiter(number, seconds, {.client = client, .id = id, .found = done});
           });
         }});
    return number;
  }

  std::int64_t wait_for_next(std::string client, std::int64_t sequence, int limit, double seconds,
                             std::function<void(Reports)> done) override {
    const std::int64_t number = ++last_waiter_;
    post({{},
          [this, number, seconds, client = std::move(client), sequence, limit,
           done = std::move(done)](const Written&) {
            listeners_of_[client].insert(number);
            add_waiter(number, seconds,
                       {.client = client, .id = {}, .sequence = sequence, .limit = limit, .reports = done});
            due_listeners_.insert(number);
          }});
    return number;
  }

  void stop_waiting(std::int64_t number) override {
    post({{}, [this, number](const Written&) {
            stopped_.insert(number);
            (void)take_waiter(number);
          }});
  }

  void find_named(NameQuery query, double seconds, std::function<void(FoundNamed)> done) override {
    post({{}, [this, query = std::move(query), seconds, done = std::move(done)](const Written&) {
            named_asks_.push_back({query, clock_.now_ns() + static_cast<std::int64_t>(seconds * 1e9), done});
          }});
  }

  void cancel(std::string client, Digest id, std::function<void(Result<bool>)> done) override {
    withdraw({.client = std::move(client), .id = id}, std::move(done));
  }

  void cancel_named(std::string client, Digest id, std::string name,
                    std::function<void(Result<bool>)> done) override {
    withdraw({.client = std::move(client), .id = id, .name = std::move(name)}, std::move(done));
  }

  void counts(std::function<void(Result<ServiceCounts>)> done) override {
    post({{}, [this, done = std::move(done)](const Written&) { counting_.push_back(done); }});
  }

  void worker_joined(std::string name, WorkerHello hello, std::shared_ptr<WorkerLink> link) override {
    post({{}, [this, name = std::move(name), hello = std::move(hello), link](const Written&) {
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
    post({{}, [this, name = std::move(name), message = std::move(message)](const Written&) {
            const auto found = workers_.find(name);
            if (found == workers_.end()) return;
            Worker& worker = found->second;
            if (std::holds_alternative<WorkerLeaves>(message)) worker.leaves = true;
            if (const auto* device = std::get_if<WorkerDevice>(&message)) counts_.device = device->record;
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
    struct Loss {
      Digest id;
      std::size_t at;
      bool is_last;
    };
    auto losses = std::make_shared<std::vector<Loss>>();
    post({[this, name, end, losses](LedgerChanges& changes) {
            const auto worker = workers_.find(name);
            if (worker == workers_.end() || std::exchange(worker->second.ended, true)) return;
            if (end == WorkerEnd::kAsked || worker->second.leaves) return;
            for (const auto& [lease, id] : worker->second.in_hand) {
              if (!active_.contains(id)) continue;
              const bool killed = end == WorkerEnd::kKilled;
              if (killed && ++killed_workers_[id] < options_.most_killed_workers) continue;
              losses->push_back({id, changes.lost_workers.size(), killed});
              changes.lost_workers.push_back(id);
            }
          },
          [this, name, end, losses](const Written& written) {
            const auto worker = workers_.find(name);
            if (worker == workers_.end()) return;
            const bool lost = end != WorkerEnd::kAsked && !worker->second.leaves;
            if (lost) ++counts_.lost_workers;
            log(lost ? Severity::kWarning : Severity::kInfo, "serve.worker_ended",
                fmt::format("{} evaluations wait again", worker->second.in_hand.size()), {{"worker", name}});
            workers_.erase(worker);
            (void)queue_.release(name, lost);
            if (!written.ok()) return;
            for (const auto& [id, at, is_last] : *losses) {
              const int count = written.outcome->lost_workers[at];
              if (is_last || count >= options_.most_lost_workers) condemn(id, count);
            }
          }});
  }

  void drain() override {
    post({{}, [this](const Written&) {
            draining_ = true;
            if (shared_) give_back([](const WorkerKind&) { return true; });
          }});
  }
  bool is_idle() const override { return in_hand_ == 0; }

  void turn(double wait_seconds) override {
    std::deque<Change> changes;
    {
      std::unique_lock lock(mutex_);
      const bool was_idle = inbox_.empty();
      arrived_.wait_for(lock, std::chrono::duration<double>(wait_seconds),
                        [&] { return !inbox_.empty() || news_; });
      if (was_idle && !inbox_.empty() && inbox_.front().record) gather(lock);
      news_ = false;
      if (inbox_.size() <= kChangesOfATurn) {
        changes.swap(inbox_);
      } else {
        for (std::size_t i = 0; i < kChangesOfATurn; ++i) {
          changes.push_back(std::move(inbox_.front()));
          inbox_.pop_front();
        }
      }
    }
    LedgerChanges recorded;
    for (const Change& change : changes)
      if (change.record) change.record(recorded);
    for (const LedgerChanges::End& end : recorded.ends)
      for (std::string& client : clients_waiting_for(end.id))
        recorded.looks.emplace_back(std::move(client), end.id);
    const std::int64_t begin_ns = clock_.now_ns();
    const Result<LedgerOutcome> outcome = write(recorded);
    if (!recorded.empty()) learn_from(changes, static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9);
    const Written written{recorded, outcome};
    settling_ = std::this_thread::get_id();
    // As in the transaction: what ends first does not end what is asked for anew.
    for (const bool submits : {false, true})
      for (const Change& change : changes)
        if (change.submits == submits) change.settle(written);
    settling_ = std::thread::id();
    admitted_.clear();
    if (outcome.ok()) answer_looked(recorded.looks, outcome->looks);
    const std::int64_t now = clock_.now_ns();
    if (now - ticked_ns_ >= static_cast<std::int64_t>(options_.tick_seconds * 1e9)) {
      ticked_ns_ = now;
      tick(now);
    }
    if (shared_) exchange(now);
    if (!draining_ && now >= paused_until_ns_) dispatch();
    answer_asks();
    answer_named();
    answer_listeners();
    answer_counts();
    stopped_.clear();
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

  /// Requests and answers often come several at once. Where those before did, waiting a little for
  /// the next makes one transaction of them instead of one for the first and another for the rest.
  void gather(std::unique_lock<std::mutex>& lock) {
    constexpr double kSeveral = 1.5;
    const double seconds = std::min(kLongestGatherSeconds, kGatherShare * write_seconds_);
    if (crowd_ < kSeveral || seconds <= 0) return;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    lock.lock();
  }

  /// Of a transaction, for the next ones' gather(): the means of the last ones.
  void learn_from(const std::deque<Change>& changes, double seconds) {
    constexpr double kNewest = 0.1;
    const auto records = std::count_if(changes.begin(), changes.end(),
                                       [](const Change& change) { return change.record != nullptr; });
    crowd_ += kNewest * (static_cast<double>(records) - crowd_);
    write_seconds_ += kNewest * (seconds - write_seconds_);
  }

  Result<LedgerOutcome> write(LedgerChanges& changes) {
    if (changes.empty()) return LedgerOutcome{};
    changes.max_all = options_.max_unfinished;
    changes.unix_ms = unix_milliseconds();
    auto outcome = ledger_.write(changes);
    next_probe_ns_ = clock_.now_ns() + static_cast<std::int64_t>(kProbeSeconds * 1e9);
    if (outcome.ok()) {
      on_write_worked();
    } else {
      last_write_worked_ = false;
      unsure_ = true;
      ++counts_.write_failures;
      log(Severity::kError, "serve.write_failed", outcome.error().to_string(), {});
    }
    return outcome;
  }

  void on_write_worked() {
    if (!std::exchange(last_write_worked_, true))
      log(Severity::kInfo, "serve.write_works", "the ledger takes writes again", {});
    rebuild_due_ |= std::exchange(unsure_, false);
  }

  /// A part in each tick, so that nobody waits for the whole.
  void forget_old(std::int64_t now) {
    if (options_.keep_seconds <= 0 || now < next_forgetting_ns_) return;
    const auto age_ms = static_cast<std::int64_t>(options_.keep_seconds * 1e3);
    const auto forgotten = ledger_.forget(unix_milliseconds() - age_ms, kForgottenAtOnce);
    if (!forgotten.ok() || *forgotten < kForgottenAtOnce)
      next_forgetting_ns_ = now + static_cast<std::int64_t>(kForgetEverySeconds * 1e9);
    if (forgotten.ok() && *forgotten > 0)
      log(Severity::kInfo, "serve.forgot", fmt::format("{} requests that ended long ago", *forgotten), {});
  }

  /// Who is not ready is sent nothing that would show that there is room again.
  void probe(std::int64_t now) {
    if (last_write_worked_ || now < next_probe_ns_) return;
    next_probe_ns_ = now + static_cast<std::int64_t>(kProbeSeconds * 1e9);
    LedgerChanges nothing;
    nothing.probe = true;
    if (ledger_.write(nothing).ok()) on_write_worked();
  }

  bool is_outdated(const Pending& pending, const std::vector<std::string>& live_versions) const {
    const std::string& version = pending.submission.key.gym_version;
    return !options_.gym_version.empty() && version != options_.gym_version &&
           std::find(live_versions.begin(), live_versions.end(), version) == live_versions.end();
  }

  /// What an older version of the gym was asked has nobody left to answer it.
  static Conclusion outdated_conclusion() {
    return {.state = State::kFailed, .verdict = {}, .error = kOutdated};
  }

  Error refusal(Admission admission, std::int64_t max_own) const {
    constexpr const char* kHint = "submit again once some have ended";
    if (admission == Admission::kRefusedOwn)
      return {ErrorCode::kBusy,
              fmt::format("this client has {} unfinished requests, as many as it may have", max_own), kHint};
    return {
        ErrorCode::kBusy,
        fmt::format("the queue is full: {} requests of all clients are unfinished", options_.max_unfinished),
        kHint};
  }

  static SharedQueue::Item shared_item(const Submission& submission) {
    return {.id = submission.key.id(),
            .kind = {submission.key.device_kind, submission.key.gym_version},
            .client = submission.client,
            .priority = submission.priority,
            .since_unix_ms = submission.submitted_unix_ms};
  }

  void on_admitted(Submission& submission, Admission admission) {
    const Digest id = submission.key.id();
    if (admission == Admission::kKnown) return notify(submission.client, id);
    admitted_.emplace(submission.client, id);
    log(Severity::kDebug, "serve.queued", "",
        {{"request", submission.trace},
         {"evaluation", id.hex()},
         {"client", submission.client},
         {"admission", std::string(name(admission))}});
    if (!shared_) {
      (void)enter(submission, 0);
      return;
    }
    set_deadline(submission.client, id, submission.deadline_unix_ms);
    if (admission == Admission::kNew) shared_turn_.added.push_back(shared_item(submission));
  }

  /// A request that the ledger has, unfinished, into memory and queue.
  Status enter(const Submission& submission, int lost_workers) {
    const Digest id = submission.key.id();
    const auto [found, is_new] = active_.try_emplace(id);
    Active& active = found->second;
    set_deadline(submission.client, id, submission.deadline_unix_ms);
    if (!is_new) return Ok{};
    const std::int64_t age_ms = std::max<std::int64_t>(0, unix_milliseconds() - submission.submitted_unix_ms);
    active.key = submission.key;
    active.trace = submission.trace;
    active.item = {.id = id,
                   .task = submission.key.task,
                   .kind = {submission.key.device_kind, submission.key.gym_version},
                   .client = submission.client,
                   .priority = submission.priority,
                   .waiting_since_ns = clock_.now_ns() - age_ms * 1'000'000,
                   .lost_workers = lost_workers};
    if (kept_text_bytes_ + submission.candidate.size() <= kKeptTextBytes) {
      active.text = submission.candidate;
      kept_text_bytes_ += active.text.size();
    }
    ++held_[active.item.kind];
    if (lost_workers >= options_.most_lost_workers) {  // a front end ended before it could say so
      condemn(id, lost_workers);
      return Ok{};
    }
    return queue_.add(active.item);
  }

  /// It is nobody's any more here.
  void forget(std::map<Digest, Active>::iterator active) {
    kept_text_bytes_ -= active->second.text.size();
    --held_[active->second.item.kind];
    active_.erase(active);
  }

  /// As the ledger has it now; 0 for none.
  void set_deadline(const std::string& client, const Digest& id, std::int64_t unix_ms) {
    end_deadline(client, id);
    std::int64_t deadline_ns = kNever;
    if (unix_ms > 0) {
      deadline_ns = clock_.now_ns() + (unix_ms - unix_milliseconds()) * 1'000'000;
      deadline_of_.emplace(Ledger::Name(client, id), Deadline{deadline_ns, unix_ms});
      deadlines_.emplace(deadline_ns, client, id);
    }
    if (const auto active = active_.find(id); active != active_.end())
      active->second.latest_deadline_ns = std::max(active->second.latest_deadline_ns, deadline_ns);
  }

  void end_deadline(const std::string& client, const Digest& id) {
    const auto found = deadline_of_.find({client, id});
    if (found == deadline_of_.end()) return;
    deadlines_.erase({found->second.ns, client, id});
    deadline_of_.erase(found);
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
      const auto of_id = waiters_of_.find(*waiter->id);
      const auto group = of_id->second.find(waiter->client);
      group->second.erase(number);
      if (group->second.empty()) of_id->second.erase(group);
      if (of_id->second.empty()) waiters_of_.erase(of_id);
    } else {
      const auto group = listeners_of_.find(waiter->client);
      group->second.erase(number);
      if (group->second.empty()) listeners_of_.erase(group);
    }
    return waiter;
  }

  std::set<std::int64_t> waiting(const std::string& client, const Digest& id) const {
    const auto of_id = waiters_of_.find(id);
    if (of_id == waiters_of_.end()) return {};
    const auto group = of_id->second.find(client);
    return group == of_id->second.end() ? std::set<std::int64_t>() : group->second;
  }

  std::vector<std::string> clients_waiting_for(const Digest& id) const {
    std::vector<std::string> clients;
    if (const auto of_id = waiters_of_.find(id); of_id != waiters_of_.end())
      for (const auto& [client, numbers] : of_id->second) clients.push_back(client);
    return clients;
  }

  /// A client's request is final: those who wait are told at the end of the turn.
  void notify(const std::string& client, const Digest& id) {
    end_deadline(client, id);
    look(client, id);
  }

  /// Tells those who wait, at the end of the turn, if a client's request is final.
  void look(const std::string& client, const Digest& id) {
    if (!waiting(client, id).empty())
      asks_[{client, id}].push_back([this, client, id](const Found& report) {
        const bool is_over = !report.ok() || !*report || is_final((*report)->state);
        for (const std::int64_t number : waiting(client, id)) {
          if (!is_over && !waiters_.at(number).by_name) continue;
          if (const auto waiter = take_waiter(number)) waiter->found(report);
        }
      });
    if (const auto group = listeners_of_.find(client); group != listeners_of_.end())
      due_listeners_.insert(group->second.begin(), group->second.end());
  }

  void look_at_all() {
    for (const auto& [id, clients] : waiters_of_)
      for (const auto& [client, numbers] : clients) look(client, id);
    for (const auto& [client, numbers] : listeners_of_) due_listeners_.insert(numbers.begin(), numbers.end());
  }

  /// What the transaction itself has told.
  void answer_looked(const std::vector<Ledger::Name>& names,
                     const std::vector<std::optional<Report>>& reports) {
    for (std::size_t i = 0; i < reports.size(); ++i) {
      if (!reports[i] || !is_final(reports[i]->state)) continue;
      if (auto asked = asks_.extract(names[i]); !asked.empty())
        for (const auto& continuation : asked.mapped()) continuation(reports[i]);
    }
  }

  /// All questions of a turn are one to the ledger.
  void answer_asks() {
    const auto asks = std::exchange(asks_, {});
    if (asks.empty()) return;
    std::vector<Ledger::Name> names;
    for (const auto& [name, continuations] : asks) names.push_back(name);
    const auto reports = ledger_.find(names);
    std::size_t at = 0;
    for (const auto& [name, continuations] : asks) {
      Found found = std::optional<Report>();
      if (reports.ok()) {
        found = (*reports)[at++];
      } else {
        found = reports.error();
      }
      if (found.ok() && *found && (*found)->state == State::kQueued) {
        const auto leased = queue_.is_leased(name.second);
        if (leased.ok() && *leased) (*found)->state = State::kRunning;
      }
      for (const auto& continuation : continuations) continuation(found);
    }
  }

  void answer_named() {
    auto asks = std::exchange(named_asks_, {});
    if (asks.empty()) return;
    std::vector<NameQuery> queries;
    for (const NamedAsk& ask : asks) queries.push_back(ask.query);
    auto all = ledger_.find_named(queries);
    for (std::size_t i = 0; i < asks.size(); ++i) {
      if (!all.ok()) {
        asks[i].done(all.error());
        continue;
      }
      std::optional<NamedReport>& found = (*all)[i];
      if (found) show_own(*found);
      if (!found || is_final(found->report.state) || asks[i].until_ns <= clock_.now_ns())
        asks[i].done(std::move(found));
      else
        wait_by_name(found->report.id, std::move(asks[i]));
    }
  }

  void show_own(NamedReport& named) {
    named.report = own_report(named, unix_milliseconds());
    if (named.report.state != State::kQueued) return;
    const auto leased = queue_.is_leased(named.report.id);
    if (leased.ok() && *leased) named.report.state = State::kRunning;
  }

  void wait_by_name(const Digest& id, NamedAsk ask) {
    const std::int64_t number = ++last_waiter_;
    const std::string client = ask.query.client;
    const double seconds = static_cast<double>(ask.until_ns - clock_.now_ns()) * 1e-9;
    waiters_of_[id][client].insert(number);
    add_waiter(number, seconds,
               {.client = client, .id = id, .by_name = true, .found = [this, ask](const Found&) {
                  named_asks_.push_back(ask);
                }});
  }

  void answer_listeners() {
    std::vector<std::int64_t> numbers;
    std::vector<FinishedQuery> queries;
    for (const std::int64_t number : std::exchange(due_listeners_, {})) {
      const auto found = waiters_.find(number);
      if (found == waiters_.end()) continue;
      numbers.push_back(number);
      queries.push_back({found->second.client, found->second.sequence, found->second.limit});
    }
    if (queries.empty()) return;
    auto all = ledger_.finished(queries);
    const std::int64_t now = clock_.now_ns();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (all.ok() && (*all)[i].empty() && waiters_.at(numbers[i]).until_ns > now) continue;
      if (const auto waiter = take_waiter(numbers[i]))
        waiter->reports(all.ok() ? Reports(std::move((*all)[i])) : Reports(all.error()));
    }
  }

  /// Anybody may ask whether the service is ready: all who do in a turn cost one count.
  void answer_counts() {
    const auto counting = std::exchange(counting_, {});
    if (counting.empty()) return;
    const auto now = count_all();
    for (const auto& done : counting) done(now);
  }

  Result<ServiceCounts> count_all() {
    ServiceCounts now = counts_;
    LATHE_TRY(now.queue, shared_ ? shared_->counts() : queue_.counts());
    LATHE_TRY(now.unfinished_requests, ledger_.unfinished());
    for (const auto& [name, worker] : workers_)
      now.workers.push_back({name, worker.hello.device_name, static_cast<int>(worker.in_hand.size()),
                             worker.busy_share, worker.device_state});
    now.ready = (!workers_.empty() || shared_) && last_write_worked_ && last_exchange_worked_ && !draining_;
    return now;
  }

  /// `clients`: whose requests have ended with it.
  void on_concluded(const Digest& id, const Conclusion& conclusion, const std::vector<std::string>& clients,
                    double cost_seconds) {
    const bool done = conclusion.state == State::kDone;
    const std::string outcome(done ? lathe::name(conclusion.verdict.outcome) : serve::name(conclusion.state));
    ++(done ? counts_.verdicts : counts_.unanswered)[outcome];
    if (shared_) shared_turn_.over.push_back({id, true, clients, cost_seconds});
    killed_workers_.erase(id);
    for (const std::string& client : clients) notify(client, id);
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
    forget(active);
  }

  /// Others have ended it.
  void on_over(const SharedQueue::Over& over) {
    for (const std::string& client : over.clients) notify(client, over.id);
    if (!over.gone) return;
    stop_work(over.id);
    killed_workers_.erase(over.id);
    if (const auto active = active_.find(over.id); active != active_.end()) forget(active);
  }

  /// It has lost too many workers.
  void condemn(const Digest& id, int lost) {
    const auto active = active_.find(id);
    if (active == active_.end()) return;
    (void)queue_.drop(id);
    end(id, {.verdict = verdict_of_lost_workers(active->second.key, lost)});
  }

  void end(const Digest& id, const Conclusion& conclusion) {
    auto at = std::make_shared<std::size_t>();
    post({[id, conclusion, at](LedgerChanges& changes) {
            *at = changes.ends.size();
            changes.ends.push_back({id, conclusion});
          },
          [this, id, conclusion, at](const Written& written) {
            if (!written.ok()) return unwritten_.push_back([this, id, conclusion] { end(id, conclusion); });
            const LedgerOutcome::Ended& ended = written.outcome->ends[*at];
            if (ended.first) on_concluded(id, conclusion, ended.clients, 0);
          }});
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
      std::optional<std::size_t> at = {};  ///< among the turn's ends
      bool wrong = false;                  ///< it is about something else than was asked
      bool wanted = false;
    };
    auto work = std::make_shared<Work>(Work{name, std::move(answer)});
    post({[this, work](LedgerChanges& changes) {
            const auto worker = workers_.find(work->name);
            if (worker == workers_.end()) return;
            const auto held = worker->second.in_hand.find(work->answer.lease);
            if (held == worker->second.in_hand.end()) return;
            work->id = held->second;
            const auto active = active_.find(work->id);
            if (active == active_.end()) return;
            work->wanted = true;
            work->wrong = !answers(work->answer, active->second.key);
            if (work->wrong) return;
            const auto conclusion = conclusion_of(work->answer);
            if (!conclusion) return;
            work->at = changes.ends.size();
            changes.ends.push_back({work->id, *conclusion});
          },
          [this, work](const Written& written) {
            const auto worker = workers_.find(work->name);
            if (worker == workers_.end() || work->id == Digest{}) {
              ++counts_.late_answers;
              return;
            }
            if (work->wrong) {  // this worker can't be believed; it is lost to all that it has in hand
              ++counts_.refused_answers;
              worker->second.link->end();
              return;
            }
            if (work->at && !written.ok()) {  // the answer is kept until the disk takes it
              unwritten_.push_back([this, work] { take_answer(work->name, std::move(work->answer)); });
              return;
            }
            worker->second.in_hand.erase(work->answer.lease);
            if (work->answer.verdict && !work->answer.verdict->profile.empty())
              worker->second.device_state = work->answer.verdict->profile;
            if (!work->at) return give_up(work->name, work->id, work->answer);
            const Conclusion& conclusion = written.changes.ends[*work->at].conclusion;
            const LedgerOutcome::Ended& ended = written.outcome->ends[*work->at];
            double seconds = 0;
            for (const auto& [stage, stage_seconds] : conclusion.verdict.stage_seconds)
              if (stage != "queue") seconds += stage_seconds;
            const auto held = queue_.finish(work->answer.lease, seconds);
            if (held.ok() && !*held) ++counts_.late_answers;
            stop_work(work->id);  // where the lease was over: another worker has it, or it waits
            if (ended.first) return on_concluded(work->id, conclusion, ended.clients, seconds);
            // Another front end's answer came first, or this one before a connection was lost.
            if (shared_) shared_turn_.over.push_back({.id = work->id, .seconds = seconds, .if_held = true});
            if (const auto active = active_.find(work->id); active != active_.end()) forget(active);
            for (const std::string& client : clients_waiting_for(work->id)) notify(client, work->id);
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
    if (!shared_) {
      (void)queue_.add(wanted.item);
      return;
    }
    // Another front end may have been given later deadlines: the ledger has them.
    forget(active);
    unread_.push_back(id);
  }

  void withdraw(const LedgerChanges::Withdraw& one, std::function<void(Result<bool>)> done) {
    auto at = std::make_shared<std::size_t>();
    post({[one, at](LedgerChanges& changes) {
            *at = changes.withdrawals.size();
            changes.withdrawals.push_back(one);
          },
          [this, one, at, done = std::move(done)](const Written& written) {
            if (!written.ok()) {
              if (done) return done(written.outcome.error());
              unwritten_.push_back([this, one] { withdraw(one, {}); });
              return;
            }
            const Withdrawal withdrawal = written.outcome->withdrawals[*at];
            if (withdrawal.ended) {
              on_withdrawn(one.client, one.id, one.state, withdrawal.unwanted);
            } else if (withdrawal.withdrawn) {
              set_deadline(one.client, one.id, withdrawal.deadline_unix_ms);
              look(one.client, one.id);
            }
            if (done) done(withdrawal.withdrawn);
          }});
  }

  void on_withdrawn(const std::string& client, const Digest& id, State state, bool unwanted) {
    ++counts_.unanswered[std::string(serve::name(state))];
    if (shared_) {
      const auto seconds = queue_.leased_seconds(id);
      shared_turn_.over.push_back({id, unwanted, {client}, seconds.ok() ? *seconds : 0, false});
    }
    if (unwanted) {
      stop_work(id);
      if (const auto active = active_.find(id); active != active_.end()) forget(active);
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
          worker_ended(name, worker->second.link->when_silent());
          worker->second.link->end();
        } else {
          (void)queue_.release(name, true);
        }
      }
    }
    while (!deadlines_.empty() && std::get<0>(*deadlines_.begin()) <= now) {
      const auto [due, client, id] = *deadlines_.begin();
      const std::int64_t unix_ms = deadline_of_.at({client, id}).unix_ms;
      end_deadline(client, id);
      // Another front end may have been given a later one, which it keeps itself.
      withdraw({.client = client, .id = id, .state = State::kExpired, .deadline_unix_ms = unix_ms}, {});
    }
    for (auto wait = waits_.begin(); wait != waits_.end() && wait->first <= now;) {
      const std::int64_t number = (wait++)->second;
      if (!waiters_.at(number).id) {
        due_listeners_.insert(number);
        continue;
      }
      const auto waiter = take_waiter(number);
      asks_[{waiter->client, *waiter->id}].push_back(waiter->found);
    }
    for (const auto& again : std::exchange(unwritten_, {})) again();
    probe(now);
    forget_old(now);
  }

  // With other front ends:

  void exchange(std::int64_t now) {
    if (now < no_exchange_before_ns_) return;
    shared_turn_.wishes = wishes();
    const auto news = shared_->exchange(shared_turn_);
    if (news.ok() != last_exchange_worked_)
      log(news.ok() ? Severity::kInfo : Severity::kError, "serve.queue",
          news.ok() ? "the queue is there again" : news.error().to_string(), {});
    last_exchange_worked_ = news.ok();
    if (!news.ok()) {
      shared_turn_.added.clear();  // a rebuild follows
      no_exchange_before_ns_ = now + static_cast<std::int64_t>(kPauseAfterFailureSeconds * 1e9);
      return;
    }
    shared_turn_ = {};
    if (news->expelled) {
      log(Severity::kWarning, "serve.expelled", "other front ends took this one for gone", {});
      for (auto active = active_.begin(); active != active_.end();) {
        stop_work(active->first);
        forget(active++);
      }
      unread_.clear();
    }
    for (const SharedQueue::Over& over : news->over) on_over(over);
    unread_.insert(unread_.end(), news->given.begin(), news->given.end());
    if (!unread_.empty()) hold();
    rebuild_due_ |= news->rebuild;
    if (rebuild_due_ && !news->live_versions.empty()) rebuild(news->live_versions);
    if (now - looked_ns_ > static_cast<std::int64_t>(kLookAgainSeconds * 1e9)) {
      looked_ns_ = now;
      rebuild_due_ |= std::exchange(unsure_, false);  // who asks again may ask another front end
      look_at_all();
      end_overdue();
    }
    give_back([&](const WorkerKind& kind) {
      const auto last = last_worker_ns_.find(kind);
      return last == last_worker_ns_.end() ||
             now - last->second > static_cast<std::int64_t>(kWorkerlessSeconds * 1e9);
    });
  }

  std::map<WorkerKind, SharedQueue::Wish> wishes() {
    std::map<WorkerKind, int> slots;
    for (const auto& [name, worker] : workers_)
      if (!worker.leaves) slots[worker.hello.kind] += worker.hello.slots;
    const std::int64_t now = clock_.now_ns();
    for (const auto& [kind, count] : slots) last_worker_ns_[kind] = now;
    std::map<WorkerKind, SharedQueue::Wish> wishes;
    if (draining_) return wishes;
    for (const auto& [kind, count] : slots) {
      const int held = held_[kind], ahead = 2 * count + kAhead;
      if (held >= count + ahead) continue;
      wishes[kind] = {.now = std::max(0, count - held), .ahead = count + ahead - std::max(held, count)};
    }
    return wishes;
  }

  /// What this front end was given, from the ledger into its queue.
  void hold() {
    const auto wanted = ledger_.wanted(unread_);
    if (!wanted.ok()) return;  // the next exchange tries again
    std::set<Digest> over(unread_.begin(), unread_.end());
    unread_.clear();
    for (const Wanted& one : *wanted) {
      const Digest id = one.submission.key.id();
      over.erase(id);
      (void)enter(one.submission, one.lost_workers);
      for (const auto& [client, unix_ms] : one.deadlines_unix_ms) set_deadline(client, id, unix_ms);
    }
    for (const Digest& id : over) shared_turn_.over.push_back({.id = id, .if_held = true});
  }

  void rebuild(const std::vector<std::string>& live_versions) {
    const auto pending = ledger_.pending();
    if (!pending.ok()) return;  // the next beat tries again
    rebuild_due_ = false;
    for (const Pending& one : *pending) {
      if (is_outdated(one, live_versions)) {
        end(one.submission.key.id(), outdated_conclusion());
      } else if (!active_.contains(one.submission.key.id())) {
        shared_turn_.added.push_back(shared_item(one.submission));
      }
    }
    log(Severity::kInfo, "serve.rebuilt", fmt::format("{} unfinished requests", pending->size()), {});
    look_at_all();
  }

  /// Deadlines of clients whose front end is gone. One that is put off meanwhile holds.
  void end_overdue() {
    const std::int64_t now_unix_ms = unix_milliseconds();
    const auto names = ledger_.overdue(kOverdueGraceMs);
    if (!names.ok()) return;
    for (const auto& [client, id] : *names)
      withdraw({.client = client, .id = id, .state = State::kExpired, .deadline_unix_ms = now_unix_ms}, {});
  }

  /// Others may have what no worker here has in hand.
  void give_back(const std::function<bool(const WorkerKind&)>& which) {
    if (std::none_of(held_.begin(), held_.end(),
                     [&](const auto& held) { return held.second > 0 && which(held.first); }))
      return;
    for (auto active = active_.begin(); active != active_.end();) {
      const auto leased = queue_.is_leased(active->first);
      const auto here = active++;
      if (!which(here->second.item.kind) || !leased.ok() || *leased) continue;
      (void)queue_.drop(here->first);
      shared_turn_.returned.push_back(here->first);
      forget(here);
    }
  }

  void dispatch() {
    std::vector<std::pair<Worker*, Lease>> given;
    std::vector<Digest> without_text;
    for (auto& [name, worker] : workers_) {
      if (worker.leaves) continue;
      const int room = worker.hello.slots - static_cast<int>(worker.in_hand.size());
      if (room <= 0) continue;
      auto leases = queue_.take(name, worker.hello.kind, room);
      if (!leases.ok()) continue;
      for (Lease& lease : *leases) {
        if (active_.at(lease.item.id).text.empty()) without_text.push_back(lease.item.id);
        given.emplace_back(&worker, std::move(lease));
      }
    }
    if (given.empty()) return;
    std::map<Digest, std::string> texts;
    if (!without_text.empty())
      if (auto read = ledger_.candidates(without_text); read.ok())
        for (std::size_t i = 0; i < without_text.size(); ++i) texts[without_text[i]] = std::move((*read)[i]);
    for (const auto& [worker, lease] : given) {
      const Active& active = active_.at(lease.item.id);
      const auto text = texts.find(lease.item.id);
      const bool is_read = !active.text.empty() || text != texts.end();
      const auto order = is_read ? order_for(lease, active.text.empty() ? text->second : active.text)
                                 : Result<FrontMessage>(Error{ErrorCode::kIo, "its text cannot be read"});
      if (!order.ok()) {
        log(Severity::kError, "serve.no_order", order.error().to_string(),
            {{"evaluation", lease.item.id.hex()}});
        (void)queue_.finish(lease.number, 0);
        if (order.error().code == ErrorCode::kNotFound) {  // nor will it be found later
          end(lease.item.id, {.state = State::kFailed, .verdict = {}, .error = "its task or text is lost"});
          continue;
        }
        (void)queue_.add(active.item);
        paused_until_ns_ = clock_.now_ns() + static_cast<std::int64_t>(kPauseAfterFailureSeconds * 1e9);
        continue;
      }
      worker->in_hand[lease.number] = lease.item.id;
      worker->link->send(*order);
    }
  }

  Result<FrontMessage> order_for(const Lease& lease, const std::string& text) {
    const Active& active = active_.at(lease.item.id);
    WorkOrder order;
    order.lease = lease.number;
    order.id = lease.item.id;
    order.trace = active.trace;
    LATHE_TRY(const StoredTask task, task_of(active.key.task));
    order.task = task.digest;
    order.task_name = task.name;
    order.task_text = task.text;
    order.candidate = text;
    order.depth = active.key.depth;
    if (active.latest_deadline_ns != kNever)
      order.deadline_seconds =
          std::max(1e-3, static_cast<double>(active.latest_deadline_ns - clock_.now_ns()) * 1e-9);
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
  SharedQueue* const shared_;
  const Clock& clock_;
  const ServiceOptions options_;
  EventSink& events_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Change> inbox_;
  bool news_ = false;
  std::atomic<std::int64_t> last_waiter_{0};
  std::atomic<std::size_t> in_hand_{0};
  std::atomic<std::thread::id> settling_{};  // the thread that does, none between

  // Of the thread that calls turn():
  std::map<Digest, Active> active_;
  std::map<std::string, Worker> workers_;
  std::map<WorkerKind, int> held_;        // of active_
  std::map<Digest, int> killed_workers_;  // WorkerEnd::kKilled
  std::size_t kept_text_bytes_ = 0;       // of active_
  std::set<std::tuple<std::int64_t, std::string, Digest>> deadlines_;
  std::map<Ledger::Name, Deadline> deadline_of_;
  std::map<std::int64_t, Waiter> waiters_;
  std::set<std::pair<std::int64_t, std::int64_t>> waits_;  // until when, number
  std::map<Digest, std::map<std::string, std::set<std::int64_t>>> waiters_of_;
  std::map<std::string, std::set<std::int64_t>> listeners_of_;
  std::set<std::int64_t> due_listeners_, stopped_;
  std::map<Ledger::Name, std::vector<std::function<void(Found)>>> asks_;
  std::vector<NamedAsk> named_asks_;
  std::vector<std::function<void(Result<ServiceCounts>)>> counting_;
  std::set<Ledger::Name> admitted_;  // in this turn, and unfinished
  std::vector<std::function<void()>> unwritten_;
  std::map<Digest, StoredTask> tasks_;
  ServiceCounts counts_;
  double crowd_ = 0;  // requests and answers of a transaction
  double write_seconds_ = 0;
  std::int64_t ticked_ns_ = 0;
  std::int64_t paused_until_ns_ = 0;

  // With other front ends:
  SharedQueue::Turn shared_turn_;
  std::vector<Digest> unread_;  // given, and not yet in active_
  std::map<WorkerKind, std::int64_t> last_worker_ns_;
  std::int64_t looked_ns_ = 0;
  std::int64_t no_exchange_before_ns_ = 0;
  bool rebuild_due_ = false;
  bool unsure_ = false;  // what failed to be written may be there, and not in the queue
  bool last_exchange_worked_ = true;

  bool last_write_worked_ = true;
  std::int64_t next_probe_ns_ = 0;
  std::int64_t next_forgetting_ns_ = 0;
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
