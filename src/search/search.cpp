#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "base/clock.h"

namespace lathe {
namespace {

constexpr double kIdleSeconds = 0.1;        // between looks at the stop token
constexpr double kAlternateSeconds = 0.01;  // between looks at the policy while verdicts are awaited
// Without a new text so often in a row, a policy counts as exhausted. Variation costs little and
// finds less.
constexpr int kMaxBarren = 320, kBarrenAnswer = 8, kBarrenVariation = 1;
constexpr double kGraceShare = 0.1;  // of the time for screens, after which those under way end
constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr int kMaxTries = 3;         // of one candidate, where the machine fails
constexpr double kFinalShare = 0.3;  // of total_seconds, kept for confirmations

/// Proposals come from the policy or from variation, wait until the evaluator has room, and are
/// stored when their verdicts come:
///
///   strategy -> [asks] -> policy -> [pending] -> evaluator: [flights] -> store, archive -> strategy
///
/// One thread does all of it and waits for none of them alone.
class Search {
 public:
  Search(const SearchContext& context, const std::string& run, const SearchOptions& options,
         const std::string& best_baseline)
      : context_(context),
        run_(run),
        options_(options),
        archive_(best_baseline),
        begin_ns_(steady_clock().now_ns()),
        seed_(Seed::from_number(options.seed)),
        unwanted_(context.stop.child()),
        screens_unwanted_(unwanted_.child()) {}
  ~Search() { unwanted_.cancel(); }

  Result<SearchSummary> go() {
    LATHE_CHECK_OK(context_.strategy.accept(context_.policy));
    LATHE_CHECK_OK(take_up());
    LATHE_CHECK_OK(screen());
    LATHE_CHECK_OK(confirm());
    summary_.interrupted = context_.stop.cancelled();
    summary_.evaluations = screens_;
    summary_.seconds = seconds();
    return summary_;
  }

 private:
  /// A proposal under evaluation.
  struct Flight {
    Proposal proposal;
    Depth depth = Depth::kScreen;
    std::int64_t submitted_ns = 0;
  };

  double seconds() const { return seconds_since(begin_ns_); }

  /// Of the search, for screens.
  double screen_seconds() const {
    const double own = options_.max_seconds > 0 ? options_.max_seconds : kUnlimited;
    const double share = options_.total_seconds > 0 ? (1 - kFinalShare) * options_.total_seconds : kUnlimited;
    return std::min(own, share);
  }

  /// Evaluations that are spent: made, under way, or a repeat of one that is.
  int spent() const { return screens_ + static_cast<int>(flights_.size() + repeats_.size()); }

  /// Evaluations that the budget still allows.
  int allowance() const {
    if (seconds() >= screen_seconds()) return 0;
    const int room = options_.in_flight - static_cast<int>(flights_.size());
    if (options_.max_evaluations == 0) return room;
    return std::min(room, options_.max_evaluations - spent());
  }

  Status take_up() {
    LATHE_TRY(auto earlier, context_.store.experiences(run_));
    std::map<Digest, Proposal> unjudged;
    for (Experience& experience : earlier) {
      sequence_ = std::max(sequence_, experience.sequence + 1);
      if (experience.verdict.outcome == Outcome::kInfra) {
        if (experience.verdict.depth != Depth::kFinal && !archive_.tried(experience.candidate))
          unjudged[experience.candidate] = {.text = experience.candidate_text,
                                            .lineage = experience.lineage,
                                            .generation = experience.generation};
        continue;
      }
      unjudged.erase(experience.candidate);
      if (experience.verdict.depth == Depth::kFinal)
        confirmed_.insert(experience.candidate);
      else
        ++screens_;
      remember(std::move(experience));
    }
    steps_ = sequence_;
    for (auto& [digest, proposal] : unjudged) {
      archive_.mark_tried(digest);
      pending_.push_back(std::move(proposal));
    }
    // The draws of earlier sittings would only find again what these have tried.
    if (sequence_ > 0) seed_ = seed_.derive("resumed", static_cast<std::uint64_t>(sequence_));
    return Ok{};
  }

  void remember(Experience experience) {
    std::vector<int> cell;
    if (Variation* const variation = context_.policy.variation())
      if (const auto candidate = parse_candidate(experience.candidate_text, experience.candidate.short_hex());
          candidate.ok())
        cell = variation->cell(*candidate);
    archive_.add(std::move(experience), cell);
  }

  /// Whether time is up for what is under way too. Something must have come of it.
  bool overdue() const { return screens_ > 0 && seconds() > (1 + kGraceShare) * screen_seconds(); }

  Status screen() {
    for (;;) {
      const bool stopped = context_.stop.cancelled();
      if (overdue()) screens_unwanted_.cancel();
      if (!stopped) LATHE_CHECK_OK(fill());
      const bool more = !asks_.empty() || !pending_.empty();
      if (flights_.empty() && (stopped || !more || allowance() <= 0)) break;
      LATHE_CHECK_OK(wait());
    }
    for (const auto& [ticket, asked] : asks_) asked.cancel.cancel();
    asks_.clear();
    if (!context_.stop.cancelled()) LATHE_CHECK_OK(failure_);
    if (!context_.stop.cancelled() && allowance() > 0) end_early();
    return Ok{};
  }

  void end_early() {
    summary_.exhausted = true;
    context_.events.on_event({Severity::kWarning, "search.exhausted",
                              fmt::format("the policy '{}' proposes nothing new after {} evaluations: the "
                                          "rest of the budget is not spent",
                                          context_.policy.name(), screens_)});
  }

  /// Submits proposals until enough are in flight, the budget is committed, or the policy must be
  /// waited for.
  Status fill() {
    while (allowance() > 0) {
      if (pending_.empty()) LATHE_CHECK_OK(find_proposals());
      if (pending_.empty()) return Ok{};
      LATHE_TRY(const bool accepted, submit(pending_.front(), Depth::kScreen));
      if (!accepted) return Ok{};
      pending_.pop_front();
    }
    return Ok{};
  }

  /// Takes steps until an untried text is there or those that were asked for may be enough.
  Status find_proposals() {
    LATHE_CHECK_OK(take_answers(0));
    while (pending_.empty() && !summary_.exhausted && barren_ < kMaxBarren &&
           asked_proposals() < allowance()) {
      const Seed seed = seed_.derive("draw", static_cast<std::uint64_t>(steps_++));
      Rng rng(seed);
      LATHE_TRY(Step step, context_.strategy.next(situation(), rng));
      if (step.wait) {
        summary_.exhausted = asks_.empty() && flights_.empty();
        return Ok{};
      }
      if (!step.ask) {
        LATHE_CHECK_OK(consider(std::move(step.proposals), kBarrenVariation));
        continue;
      }
      const Ask& ask = *step.ask;
      const CancelToken cancel = unwanted_.child();
      const ProposalTicket ticket = context_.policy.ask({.context = context_.policy_context,
                                                         .history = ask.shown ? *ask.shown : archive_.all(),
                                                         .use = ask.use,
                                                         .count = ask.count,
                                                         .independent = ask.independent,
                                                         .seed = seed.derive("policy"),
                                                         .group = ask.group >= 0 ? ask.group : steps_ - 1,
                                                         .turn = ask.turn,
                                                         .cancel = cancel});
      asks_[ticket] = {*std::move(step.ask), cancel};
      LATHE_CHECK_OK(take_answers(0));
    }
    return Ok{};
  }

  Situation situation() const {
    Situation situation{context_.policy_context, context_.policy, archive_};
    const auto add = [&](const Lineage& lineage) {
      situation.under_way.push_back({lineage.branch, lineage.turn});
    };
    for (const auto& [ticket, asked] : asks_)
      for (const std::int64_t branch : asked.ask.branches)
        situation.under_way.push_back({branch, asked.ask.turn});
    for (const Proposal& proposal : pending_) add(proposal.lineage);
    for (const auto& [ticket, flight] : flights_) add(flight.proposal.lineage);
    for (const auto& [digest, proposal] : repeats_) add(proposal.lineage);
    const int wanted = asked_proposals() + static_cast<int>(pending_.size());
    situation.room = options_.max_evaluations == 0 ? std::numeric_limits<int>::max()
                                                   : options_.max_evaluations - spent() - wanted;
    return situation;
  }

  int asked_proposals() const {
    int sum = 0;
    for (const auto& [ticket, asked] : asks_) sum += asked.ask.count;
    return sum;
  }

  /// All answers that are there; waits for the first at most so long.
  Status take_answers(double timeout_seconds) {
    while (!asks_.empty()) {
      auto answer = context_.policy.poll(timeout_seconds);
      if (!answer) return Ok{};
      timeout_seconds = 0;
      const auto asked = asks_.extract(answer->ticket);
      if (!asked) continue;  // of an earlier search that was stopped
      if (!answer->proposals.ok()) {
        // What was paid for is evaluated and stored first.
        if (failure_.ok()) failure_ = std::move(answer->proposals).error();
        summary_.exhausted = true;
        continue;
      }
      std::vector<Proposal> proposals = *std::move(answer->proposals);
      const Ask& ask = asked.mapped().ask;
      for (std::size_t i = 0; i < std::min(proposals.size(), ask.branches.size()); ++i) {
        proposals[i].lineage.branch = ask.branches[i];
        proposals[i].lineage.turn = ask.turn;
      }
      LATHE_CHECK_OK(consider(std::move(proposals), kBarrenAnswer));
    }
    return Ok{};
  }

  Status consider(std::vector<Proposal> proposals, int barren_weight) {
    if (proposals.empty()) summary_.exhausted = true;
    bool barren = true;
    for (Proposal& proposal : proposals) {
      const Digest digest = digest_of(proposal.text);
      if (archive_.tried(digest)) {
        if (!proposal.generation) continue;
        barren = false;
        LATHE_CHECK_OK(repeat(digest, std::move(proposal)));
        continue;
      }
      archive_.mark_tried(digest);
      pending_.push_back(std::move(proposal));
      barren = false;
    }
    barren_ = barren ? barren_ + barren_weight : 0;
    if (barren_ >= kMaxBarren && flights_.empty()) summary_.exhausted = true;
    return Ok{};
  }

  /// A model wrote again what was tried. Its samples are data and turns of conversations, so this
  /// one is kept as an evaluation, with the verdict that the text has or will have.
  Status repeat(const Digest& digest, Proposal proposal) {
    const auto judged = std::ranges::find_if(archive_.all(), [&](const auto& attempt) {
      return attempt->experience.candidate == digest && attempt->experience.verdict.depth != Depth::kFinal;
    });
    if (judged != archive_.all().end())
      return keep_repeat(std::move(proposal), (*judged)->experience.verdict);
    repeats_.emplace(digest, std::move(proposal));
    return Ok{};
  }

  Status keep_repeat(Proposal proposal, const Verdict& verdict) {
    LATHE_TRY(Experience experience,
              append({std::move(proposal), Depth::kScreen, steady_clock().now_ns()}, verdict));
    ++screens_;
    ++counts_[std::string(name(verdict.outcome))];
    remember(std::move(experience));
    report_progress();
    return Ok{};
  }

  /// false: the evaluator is busy, try again after a verdict.
  Result<bool> submit(const Proposal& proposal, Depth depth) {
    const auto ticket =
        context_.evaluator.submit({.task = context_.policy_context.task,
                                   .text = proposal.text,
                                   .name = digest_of(proposal.text).short_hex(),
                                   .depth = depth,
                                   .cancel = depth == Depth::kScreen ? screens_unwanted_ : unwanted_,
                                   .unreadable = proposal.unreadable});
    if (!ticket.ok() && ticket.error().code == ErrorCode::kBusy) return false;
    if (!ticket.ok()) return ticket.error();
    flights_[*ticket] = {proposal, depth, steady_clock().now_ns()};
    return true;
  }

  /// Until a verdict or an answer comes, or it is time to look at the stop token.
  Status wait() {
    if (flights_.empty() && !asks_.empty()) return take_answers(kIdleSeconds);
    LATHE_CHECK_OK(take_answers(0));
    auto evaluated = context_.evaluator.poll(asks_.empty() ? kIdleSeconds : kAlternateSeconds);
    return evaluated ? keep(*evaluated) : Status(Ok{});
  }

  /// Stores a finished evaluation: only then does it count. What was cancelled leaves no trace.
  Status keep(Evaluated& evaluated) {
    const auto flight = flights_.extract(evaluated.ticket);
    if (!flight) return Ok{};  // of an earlier search that was stopped
    if (!evaluated.verdict.ok()) {
      const Error& error = evaluated.verdict.error();
      return error.code == ErrorCode::kCancelled ? Status(Ok{}) : Status(error);
    }
    if (evaluated.verdict->outcome == Outcome::kInfra)
      return try_again(std::move(flight.mapped()), *std::move(evaluated.verdict));
    ++judged_;
    const bool screened = flight.mapped().depth != Depth::kFinal;
    LATHE_TRY(Experience experience, append(std::move(flight.mapped()), *std::move(evaluated.verdict)));
    if (screened) {
      ++screens_;
      ++counts_[std::string(name(experience.verdict.outcome))];
    } else {
      confirmed_.insert(experience.candidate);
    }
    const Digest digest = experience.candidate;
    const Verdict verdict = experience.verdict;
    remember(std::move(experience));
    barren_ = 0;  // a strategy that knows more may find what it could not
    if (!screened) return Ok{};
    report_progress();
    for (auto again = repeats_.find(digest); again != repeats_.end(); again = repeats_.find(digest))
      LATHE_CHECK_OK(keep_repeat(std::move(repeats_.extract(again).mapped()), verdict));
    return Ok{};
  }

  Result<Experience> append(Flight flight, Verdict verdict) {
    Experience experience;
    experience.run = run_;
    experience.sequence = sequence_++;
    experience.task_name = context_.policy_context.task->name;
    experience.task = context_.policy_context.task->digest;
    experience.candidate = digest_of(flight.proposal.text);
    experience.candidate_text = std::move(flight.proposal.text);
    experience.lineage = std::move(flight.proposal.lineage);
    experience.generation = std::move(flight.proposal.generation);
    experience.verdict = std::move(verdict);
    experience.cost_seconds = seconds_since(flight.submitted_ns);
    experience.created_unix = unix_seconds();
    LATHE_TRY(experience.id, context_.store.append(experience));
    return experience;
  }

  /// A failure of the machine says nothing about the candidate, so it costs no evaluation. A
  /// candidate that keeps failing while others are judged is given up, which does cost one, so that
  /// a search ends whatever its candidates do. If nothing was judged meanwhile, the machine is
  /// broken. A resumed search tries both again.
  Status try_again(Flight flight, Verdict verdict) {
    const bool screened = flight.depth != Depth::kFinal;
    const Digest digest = digest_of(flight.proposal.text);
    Tries& tries = tries_.try_emplace({digest, flight.depth}, Tries{0, judged_}).first->second;
    const std::string what =
        fmt::format("{} ({}): {}", name(verdict.outcome), verdict.reason, verdict.detail);
    if (++tries.count < kMaxTries) {
      context_.events.on_event(
          {Severity::kWarning, "search.infra",
           fmt::format("the machine failed, {} is tried again: {}", digest.short_hex(), what)});
      if (screened) pending_.push_back(std::move(flight.proposal));
      return Ok{};
    }
    const bool others_were_judged = judged_ > tries.judged_before;
    LATHE_TRY(const Experience given_up, append(std::move(flight), std::move(verdict)));
    repeats_.erase(digest);
    if (screened && !others_were_judged) return broken_machine(what);
    ++counts_[std::string(name(Outcome::kInfra))];
    if (screened)
      ++screens_;
    else
      unconfirmed_.emplace(digest, what);
    return Ok{};
  }

  Error broken_machine(const std::string& what) const {
    return {ErrorCode::kUnavailable,
            fmt::format("the machine failed {} times in a row, at last with {}", kMaxTries, what),
            "run lathe doctor, then go on with: lathe optimize --resume " + run_};
  }

  /// The best of the screen were chosen for a lucky measurement too: they are measured afresh, at
  /// `final`. Where the time is short the first is, and others as long as one more fits.
  Status confirm() {
    const auto finalists = archive_.best(options_.confirmations);
    int number = 0;
    double longest = 0;
    for (const Experience* best : finalists) {
      ++number;
      if (context_.stop.cancelled()) return Ok{};
      if (confirmed_.contains(best->candidate)) continue;
      if (longest > 0 && options_.total_seconds > 0 && seconds() + longest > options_.total_seconds)
        return Ok{};
      context_.events.on_event({Severity::kInfo, "search.confirm",
                                fmt::format("{} evaluations done; measuring the best afresh, {} of {}",
                                            screens_, number, finalists.size())});
      const std::int64_t began_ns = steady_clock().now_ns();
      Lineage lineage{{best->candidate}, context_.policy.name(), "confirm", "measured again at final"};
      const Proposal proposal{best->candidate_text, std::move(lineage)};
      while (!confirmed_.contains(best->candidate) && !unconfirmed_.contains(best->candidate) &&
             !context_.stop.cancelled()) {
        if (flights_.empty()) LATHE_CHECK_OK(submit(proposal, Depth::kFinal));
        LATHE_CHECK_OK(wait());
      }
      while (!flights_.empty()) LATHE_CHECK_OK(wait());
      longest = std::max(longest, seconds_since(began_ns));
    }
    if (!unconfirmed_.empty() && unconfirmed_.size() == finalists.size())
      return broken_machine(unconfirmed_.begin()->second);
    return Ok{};
  }

  void report_progress() const {
    const auto best = archive_.best(1);
    double left = 0;
    if (options_.max_seconds > 0)
      left = options_.max_seconds - seconds();
    else if (screens_ > 0 && options_.max_evaluations > 0)
      left = seconds() / screens_ * std::max(0, options_.max_evaluations - screens_);
    if (options_.total_seconds > 0) {
      const double total = options_.total_seconds - seconds();
      left = left > 0 ? std::min(left, total) : total;
    }
    Event event{Severity::kInfo, "search.progress", "", {}};
    event.fields = {{"evaluations", std::to_string(screens_)},
                    {"budget", std::to_string(options_.max_evaluations)},
                    {"best", best.empty() ? "0" : fmt::format("{:.3f}", archive_.fitness(*best[0]))},
                    {"seconds_left", fmt::format("{:.0f}", std::max(0.0, left))}};
    for (const auto& [outcome, count] : counts_) event.fields["count." + outcome] = std::to_string(count);
    context_.events.on_event(event);
  }

  /// What the policy was asked for and has not answered.
  struct Asked {
    Ask ask;
    CancelToken cancel;
  };

  const SearchContext& context_;
  const std::string& run_;
  const SearchOptions& options_;
  Archive archive_;
  const std::int64_t begin_ns_;
  Seed seed_;                           ///< of this sitting's draws
  const CancelToken unwanted_;          ///< raised when nobody waits for requests any more
  const CancelToken screens_unwanted_;  ///< or when the time for screens is up
  SearchSummary summary_;
  std::map<ProposalTicket, Asked> asks_;
  std::deque<Proposal> pending_;
  std::multimap<Digest, Proposal> repeats_;  ///< of texts that are under way
  std::map<Ticket, Flight> flights_;
  /// How often the machine failed a candidate, and how many verdicts there were before.
  struct Tries {
    int count = 0;
    std::int64_t judged_before = 0;
  };
  std::map<std::pair<Digest, Depth>, Tries> tries_;
  std::int64_t judged_ = 0;  ///< evaluations of this sitting that ended otherwise than INFRA
  std::set<Digest> confirmed_;
  std::map<Digest, std::string> unconfirmed_;  ///< finalists that were given up, and why
  std::map<std::string, int> counts_;
  std::int64_t sequence_ = 0;
  std::int64_t steps_ = 0;
  int barren_ = 0;
  Status failure_ = Ok{};  ///< of the policy: what is under way is finished, and nothing more is asked
  int screens_ = 0;
};

}  // namespace

Result<SearchSummary> run_search(const SearchContext& context, const std::string& run,
                                 const SearchOptions& options) {
  LATHE_TRY(const TaskBaselines baselines,
            context.evaluator.baselines(context.policy_context.task, context.stop));
  return Search(context, run, options, baselines.best).go();
}

}  // namespace lathe
