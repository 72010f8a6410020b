#include "contest/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <set>

#include "base/clock.h"
#include "contest/runs.h"
#include "reward/reward.h"
#include "search/search.h"

namespace lathe {
namespace {

constexpr int kMostTries = 3;  // of one text, where the machine fails
constexpr double kPollSeconds = 0.05;
constexpr int kTurnsOfWindow = 4;  // it is filled in
constexpr const char* kGreedy = "greedy";

using TextKey = std::pair<Digest, Digest>;  // task, candidate

/// One contest on its way.
class Contest {
 public:
  Contest(const ContestContext& context, const std::vector<ContestTask>& tasks, const ContestOptions& options)
      : context_(context), tasks_(tasks), options_(options) {}

  Status take_up() {
    LATHE_TRY(const auto runs, contest_runs(context_.store, options_.name));
    for (const ContestRun& run : runs) {
      peers_.emplace(run.record.task, run.settings.peer);
      origins_.emplace(run.record.id, run.settings.origin);
      LATHE_TRY(const auto experiences, context_.store.experiences(run.record.id));
      remember(experiences);
    }
    return Ok{};
  }

  Status run(const Entrant& entrant) {
    entrant_ = &entrant;
    kept_ = 0;
    for (const ContestTask& task : tasks_) {
      LATHE_CHECK_OK(check_origin(run_id(task)));
      LATHE_TRY(const bool done, is_done(task));
      if (!done) waiting_.push_back(&task);
    }
    if (waiting_.empty()) return Ok{};
    LATHE_TRY(policy_, entrant.open());
    const Status status = entrant.kind == Entrant::Kind::kSearch ? search_all() : sample_all();
    policy_.reset();
    waiting_.clear();
    active_.clear();
    return status;
  }

 private:
  /// A task that an entrant writes for.
  struct Active {
    const ContestTask* task = nullptr;
    std::string run;
    int asked = 0;                  ///< requests without an answer
    int under_way = 0;              ///< proposals without a verdict
    bool short_of_samples = false;  ///< a budget was spent: a later sitting asks for the rest
  };
  struct Asked {
    Active* active = nullptr;
    std::vector<std::int64_t> numbers = {};  ///< of the proposals
  };
  struct Waiting {
    Active* active = nullptr;
    std::int64_t number = 0;
    Proposal proposal = {};
    std::int64_t submitted_ns = 0;
  };

  void remember(const std::vector<Experience>& experiences) {
    for (const Experience& experience : experiences)
      if (experience.verdict.outcome != Outcome::kInfra)
        verdicts_.emplace(TextKey{experience.task, experience.candidate}, experience.verdict);
  }

  int samples() const {
    return entrant_->most > 0 ? std::min(entrant_->most, options_.samples) : options_.samples;
  }
  std::string run_id(const ContestTask& task) const {
    return contest_run_id(options_.name, entrant_->name, *task.task);
  }
  Seed seed_of(const ContestTask& task, std::int64_t first) const {
    return Seed::from_number(options_.seed)
        .derive("contest/" + entrant_->name + "/" + task.task->digest.hex(),
                static_cast<std::uint64_t>(first));
  }

  std::string origin() const {
    const bool cpu = context_.device.dialect == Dialect::kCpu;
    return fmt::format("{} samples, seed {}, {}{}{}{}", samples(), options_.seed, context_.device.name,
                       cpu ? fmt::format(" ({} threads)", context_.device.threads) : "",
                       entrant_->origin.empty() ? "" : ", ", entrant_->origin);
  }

  /// What another model answered must not be read as this one's.
  Status check_origin(const std::string& run) const {
    const auto held = origins_.find(run);
    if (held == origins_.end() || held->second.empty() || held->second == origin()) return Ok{};
    return invalid(fmt::format("the contest '{}' has '{}' already, by something else: {}; now it is {}",
                               options_.name, entrant_->name, held->second, origin()),
                   "choose another --name or --label, or another --store");
  }

  Result<bool> is_done(const ContestTask& task) const {
    const auto run = context_.store.run(run_id(task));
    if (!run.ok() && run.error().code != ErrorCode::kNotFound) return run.error();
    return run.ok() && run->status == "done";
  }

  /// Prepares the task, and makes its run if there is none.
  Result<std::string> begin(const ContestTask& task) {
    LATHE_TRY(const TaskBaselines baselines, context_.evaluator.baselines(task.task, context_.stop));
    const std::string id = run_id(task);
    const auto earlier = context_.store.run(id);
    if (earlier.ok()) return id;
    if (earlier.error().code != ErrorCode::kNotFound) return earlier.error();
    RunRecord record;
    record.id = id;
    record.task_name = task.task->name;
    record.task_text = task.task->text;
    record.task = task.task->digest;
    record.status = "running";
    record.created_unix = unix_seconds();
    const bool cpu = context_.device.dialect == Dialect::kCpu;
    record.config =
        to_text(ContestSettings{.contest = options_.name,
                                .entrant = entrant_->name,
                                .language = options_.language,
                                .device = context_.device.name,
                                .group = task.group,
                                .peer = peers_.emplace(task.task->digest, baselines.best).first->second,
                                .ordered = entrant_->kind != Entrant::Kind::kSampler,
                                .threads = cpu ? context_.device.threads : 1,
                                .origin = origin()});
    LATHE_CHECK_OK(context_.store.create_run(record));
    return id;
  }

  /// Of a task that cannot be prepared; other tasks go on.
  Status give_up(const ContestTask& task, const Error& error) {
    if (context_.stop.cancelled()) return Ok{};
    if (error.code == ErrorCode::kInternal || error.code == ErrorCode::kIo) return error;
    context_.events.on_event(
        {Severity::kWarning, "contest.unprepared", task.task->name + ": " + error.message});
    return Ok{};
  }

  Status search_all() {
    while (!waiting_.empty() && !context_.stop.cancelled()) {
      const ContestTask& task = *waiting_.front();
      waiting_.pop_front();
      if (!waiting_.empty()) context_.evaluator.prepare(waiting_.front()->task);
      const auto run = begin(task);
      if (!run.ok()) {
        LATHE_CHECK_OK(give_up(task, run.error()));
        continue;
      }
      LATHE_TRY(auto strategy, make_strategy("evolve"));
      const SearchContext search{{task.task, context_.device, context_.peaks},
                                 *policy_,
                                 *strategy,
                                 context_.evaluator,
                                 context_.store,
                                 context_.events,
                                 context_.stop};
      const SearchOptions budget{.max_evaluations = samples(),
                                 .seed = options_.seed,
                                 .in_flight = std::max(4, 2 * context_.device.lanes),
                                 .confirmations = 0};
      LATHE_TRY(const SearchSummary summary, run_search(search, *run, budget));
      if (summary.interrupted) continue;
      LATHE_CHECK_OK(context_.store.update_run(*run, "done", ""));
      LATHE_TRY(const auto experiences, context_.store.experiences(*run));
      remember(experiences);
    }
    return Ok{};
  }

  Status sample_all() {
    while (!context_.stop.cancelled() && !(waiting_.empty() && active_.empty())) {
      LATHE_CHECK_OK(ask_for_a_turn());
      LATHE_CHECK_OK(take_answers(judged_.empty() ? kPollSeconds : 0));
      LATHE_CHECK_OK(take_verdicts(judged_.empty() ? 0 : kPollSeconds));
      LATHE_CHECK_OK(end_tasks());
    }
    return drain();
  }

  /// A model that shares the gym's device has it to itself while it writes, so it is asked for many
  /// tasks at once, and no sooner than there is room for as many.
  Status ask_for_a_turn() {
    const int turn = std::max(1, options_.window / kTurnsOfWindow);
    if (!active_.empty() && static_cast<int>(active_.size()) > options_.window - turn) return Ok{};
    const auto count = std::min(waiting_.size(), static_cast<std::size_t>(turn));
    for (std::size_t i = 0; i < std::min(waiting_.size(), count + 1); ++i)
      context_.evaluator.prepare(waiting_[i]->task);
    std::vector<std::pair<const ContestTask*, std::string>> begun;
    for (std::size_t i = 0; i < count && !context_.stop.cancelled(); ++i) {
      const ContestTask& task = *waiting_.front();
      waiting_.pop_front();
      auto run = begin(task);
      if (run.ok())
        begun.emplace_back(&task, *std::move(run));
      else
        LATHE_CHECK_OK(give_up(task, run.error()));
    }
    for (const auto& [task, run] : begun) LATHE_CHECK_OK(ask(*task, run));
    return Ok{};
  }

  /// What is still under way after a stop leaves no trace.
  Status drain() {
    if (!judged_.empty()) cancel_.cancel();
    while (context_.evaluator.in_flight() > 0) context_.evaluator.poll(kPollSeconds);
    judged_.clear();
    unsent_.clear();
    under_way_.clear();
    asks_.clear();
    return Ok{};
  }

  Status ask(const ContestTask& task, const std::string& run) {
    LATHE_TRY(const auto earlier, context_.store.experiences(run));
    std::set<std::int64_t> there;
    for (const Experience& experience : earlier) there.insert(experience.sequence);
    Active& active = active_.emplace_back(Active{&task, run});
    std::vector<std::int64_t> numbers;
    for (std::int64_t number = 1; number <= samples(); ++number)
      if (!there.contains(number)) numbers.push_back(number);
    const bool sampler = entrant_->kind == Entrant::Kind::kSampler;
    ProposalRequest request{.context = {task.task, context_.device, context_.peaks},
                            .independent = sampler,
                            .cancel = context_.stop};
    if (entrant_->greedy && !there.contains(0)) {
      ProposalRequest greedy = request;
      greedy.temperature = 0;
      greedy.seed = seed_of(task, 0);
      ++active.asked;
      asks_[policy_->ask(std::move(greedy))] = {&active, {0}};
    }
    if (numbers.empty()) return Ok{};
    // A list has its order, so what earlier sittings took of it is skipped when its answer comes.
    request.count = sampler ? static_cast<int>(numbers.size()) : samples();
    request.seed = seed_of(task, numbers.front());
    request.group = 1;
    if (!sampler) {
      numbers.resize(static_cast<std::size_t>(samples()));
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i) + 1;
    }
    skipped_[run] = std::move(there);
    ++active.asked;
    asks_[policy_->ask(std::move(request))] = {&active, std::move(numbers)};
    return Ok{};
  }

  Status take_answers(double timeout_seconds) {
    while (!asks_.empty()) {
      auto answer = policy_->poll(timeout_seconds);
      if (!answer) return Ok{};
      timeout_seconds = 0;
      const auto asked = asks_.extract(answer->ticket);
      if (!asked) continue;
      const auto& [active, numbers] = asked.mapped();
      --active->asked;
      if (!answer->proposals.ok()) {
        if (context_.stop.cancelled()) return Ok{};
        return answer->proposals.error();
      }
      std::vector<Proposal>& proposals = *answer->proposals;
      active->short_of_samples |=
          entrant_->kind == Entrant::Kind::kSampler && proposals.size() < numbers.size();
      for (std::size_t i = 0; i < std::min(proposals.size(), numbers.size()); ++i) {
        if (skipped_[active->run].contains(numbers[i])) continue;
        if (numbers[i] == 0) proposals[i].lineage.operation = kGreedy;
        ++active->under_way;
        LATHE_CHECK_OK(judge({active, numbers[i], std::move(proposals[i]), steady_clock().now_ns()}));
      }
    }
    return Ok{};
  }

  Status judge(Waiting waiting) {
    const TextKey key{waiting.active->task->task->digest, digest_of(waiting.proposal.text)};
    if (const auto known = verdicts_.find(key); known != verdicts_.end()) return keep(waiting, known->second);
    const bool first = !under_way_.contains(key);
    under_way_[key].push_back(std::move(waiting));
    return first ? submit(key) : Status(Ok{});
  }

  /// Now, or once the gym has room.
  Status submit(const TextKey& key) {
    const Waiting& first = under_way_.at(key).front();
    const auto ticket = context_.evaluator.submit({.task = first.active->task->task,
                                                   .text = first.proposal.text,
                                                   .name = key.second.short_hex(),
                                                   .cancel = cancel_,
                                                   .unreadable = first.proposal.unreadable});
    if (!ticket.ok() && ticket.error().code == ErrorCode::kBusy && !judged_.empty()) {
      unsent_.push_back(key);
      return Ok{};
    }
    if (!ticket.ok()) return ticket.error();
    judged_.emplace(*ticket, key);
    return Ok{};
  }

  Status submit_unsent() {
    for (const TextKey& key : std::exchange(unsent_, {})) LATHE_CHECK_OK(submit(key));
    return Ok{};
  }

  Status take_verdicts(double timeout_seconds) {
    LATHE_CHECK_OK(submit_unsent());
    while (auto evaluated = context_.evaluator.poll(timeout_seconds)) {
      timeout_seconds = 0;
      const auto found = judged_.extract(evaluated->ticket);
      if (!found) continue;
      const TextKey key = found.mapped();
      if (!evaluated->verdict.ok()) {
        if (evaluated->verdict.error().code == ErrorCode::kCancelled) continue;
        return evaluated->verdict.error();
      }
      if (evaluated->verdict->outcome == Outcome::kInfra && ++tries_[key] < kMostTries) {
        LATHE_CHECK_OK(submit(key));
        continue;
      }
      if (evaluated->verdict->outcome != Outcome::kInfra) verdicts_.emplace(key, *evaluated->verdict);
      std::vector<Waiting> waiting = std::move(under_way_.extract(key).mapped());
      for (Waiting& one : waiting) LATHE_CHECK_OK(keep(one, *evaluated->verdict));
    }
    return Ok{};
  }

  Status keep(Waiting& waiting, const Verdict& verdict) {
    Experience experience;
    experience.run = waiting.active->run;
    experience.sequence = waiting.number;
    experience.task_name = waiting.active->task->task->name;
    experience.task = waiting.active->task->task->digest;
    experience.candidate = digest_of(waiting.proposal.text);
    experience.candidate_text = std::move(waiting.proposal.text);
    experience.lineage = std::move(waiting.proposal.lineage);
    experience.generation = std::move(waiting.proposal.generation);
    experience.verdict = verdict;
    experience.cost_seconds = seconds_since(waiting.submitted_ns);
    experience.created_unix = unix_seconds();
    --waiting.active->under_way;
    LATHE_TRY(experience.id, context_.store.append(experience));
    context_.events.on_event({Severity::kInfo, "contest.progress",
                              fmt::format("{}: {} evaluated, {} of {} tasks left", entrant_->name, ++kept_,
                                          waiting_.size() + active_.size(), tasks_.size())});
    return Ok{};
  }

  Status end_tasks() {
    for (auto active = active_.begin(); active != active_.end();) {
      if (active->asked > 0 || active->under_way > 0) {
        ++active;
        continue;
      }
      if (!active->short_of_samples) LATHE_CHECK_OK(context_.store.update_run(active->run, "done", ""));
      active = active_.erase(active);
    }
    return Ok{};
  }

  const ContestContext& context_;
  const std::vector<ContestTask>& tasks_;
  const ContestOptions& options_;
  const Entrant* entrant_ = nullptr;
  std::unique_ptr<Policy> policy_;
  const CancelToken cancel_;
  std::deque<const ContestTask*> waiting_;
  std::list<Active> active_;
  std::map<ProposalTicket, Asked> asks_;
  std::map<std::string, std::set<std::int64_t>> skipped_;  ///< by run: numbers of earlier sittings
  std::map<Ticket, TextKey> judged_;
  std::vector<TextKey> unsent_;  ///< the gym had no room
  std::map<TextKey, std::vector<Waiting>> under_way_;
  std::map<TextKey, Verdict> verdicts_;
  std::map<TextKey, int> tries_;
  int kept_ = 0;                                ///< of the entrant, in this sitting
  std::map<Digest, std::string> peers_;         ///< by task: one for all entrants
  std::map<std::string, std::string> origins_;  // of earlier runs
};

double generation_cost(const Experience& experience, const char* what) {
  if (!experience.generation) return 0;
  const auto found = experience.generation->cost.find(what);
  return found == experience.generation->cost.end() ? 0 : found->second;
}

}  // namespace

std::string contest_run_id(const std::string& contest, const std::string& entrant, const TaskSpec& task) {
  return fmt::format("contest-{}-{}-{}", contest, entrant, task.digest.short_hex());
}

Result<bool> run_contest(const ContestContext& context, const std::vector<Entrant>& entrants,
                         const std::vector<ContestTask>& tasks, const ContestOptions& options) {
  Contest contest(context, tasks, options);
  LATHE_CHECK_OK(contest.take_up());
  for (const Entrant& entrant : entrants) {
    if (context.stop.cancelled()) break;
    LATHE_CHECK_OK(contest.run(entrant));
  }
  return !context.stop.cancelled();
}

Result<std::vector<ContestSample>> contest_samples(Store& store, const std::string& name) {
  LATHE_TRY(const auto runs, contest_runs(store, name));
  std::vector<ContestSample> samples;
  for (const auto& [record, settings] : runs) {
    LATHE_TRY(const auto experiences, store.experiences(record.id));
    const bool sampled = std::ranges::none_of(
        experiences, [](const Experience& e) { return e.sequence == 0 && e.lineage.operation != kGreedy; });
    for (const Experience& experience : experiences) {
      const Verdict& verdict = experience.verdict;
      if (verdict.outcome == Outcome::kInfra) continue;
      ContestSample sample{.entrant = settings.entrant,
                           .ordered = settings.ordered,
                           .device = settings.device,
                           .language = settings.language,
                           .threads = settings.threads,
                           .group = settings.group,
                           .task_name = experience.task_name,
                           .task = experience.task,
                           .number = experience.sequence + (sampled ? 0 : 1),  // a search counts from 0
                           .candidate = experience.candidate,
                           .outcome = verdict.outcome,
                           .reason = verdict.reason,
                           .peer = settings.peer,
                           .answer_tokens = generation_cost(experience, "answer_tokens"),
                           .write_seconds = generation_cost(experience, "seconds")};
      if (verdict.passed()) {
        sample.speedup_low = speedup_low(verdict, settings.peer);
        if (const auto speedup = verdict.speedup(settings.peer)) sample.speedup = speedup->mid;
      }
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

}  // namespace lathe
