#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/clock.h"

namespace lathe {
namespace {

constexpr double kPollSeconds = 0.1;  // between looks at the stop token
constexpr int kMaxBarrenDraws = 40;   // draws without a new text after which a policy counts as exhausted

class Search {
 public:
  Search(const SearchContext& context, const std::string& run, const SearchOptions& options)
      : context_(context),
        run_(run),
        options_(options),
        archive_(context.best_baseline),
        begin_ns_(steady_clock().now_ns()) {}

  Result<SearchSummary> go() {
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
    std::string text;
    Lineage lineage;
    std::int64_t submitted_ns = 0;
  };

  double seconds() const { return seconds_since(begin_ns_); }

  bool budget_left() const {
    const int committed = screens_ + context_.evaluator.in_flight();
    if (options_.max_evaluations > 0 && committed >= options_.max_evaluations) return false;
    return options_.max_seconds <= 0 || seconds() < options_.max_seconds;
  }

  Status take_up() {
    LATHE_TRY(auto earlier, context_.store.experiences(run_));
    for (Experience& experience : earlier) {
      sequence_ = std::max(sequence_, experience.sequence + 1);
      if (experience.verdict.depth == Depth::kFinal)
        confirmed_.insert(experience.candidate);
      else
        ++screens_;
      remember(std::move(experience));
    }
    draws_ = sequence_;
    return Ok{};
  }

  void remember(Experience experience) {
    const auto candidate = parse_candidate(experience.candidate_text, experience.candidate.short_hex());
    const auto cell =
        candidate.ok() ? context_.policy.behaviour(context_.policy_context, *candidate) : std::vector<int>{};
    archive_.add(std::move(experience), cell);
  }

  Status screen() {
    for (;;) {
      LATHE_CHECK_OK(fill());
      if (context_.evaluator.in_flight() == 0) break;
      if (const auto evaluated = context_.evaluator.poll(kPollSeconds)) LATHE_CHECK_OK(keep(*evaluated));
    }
    return Ok{};
  }

  /// Submits proposals until enough are in flight or the budget is committed.
  Status fill() {
    while (context_.evaluator.in_flight() < options_.in_flight && budget_left() && !summary_.exhausted &&
           !context_.stop.cancelled()) {
      if (pending_.empty()) LATHE_CHECK_OK(draw());
      if (pending_.empty()) break;
      Proposal proposal = std::move(pending_.front());
      pending_.erase(pending_.begin());
      LATHE_CHECK_OK(submit(std::move(proposal)));
    }
    return Ok{};
  }

  /// Asks the strategy until it gives something untried.
  Status draw() {
    for (int barren = 0; barren < kMaxBarrenDraws; ++barren) {
      Rng rng(Seed::from_number(options_.seed).derive("draw", static_cast<std::uint64_t>(draws_++)));
      LATHE_TRY(auto proposals,
                context_.strategy.next(context_.policy_context, context_.policy, archive_, rng));
      if (proposals.empty()) break;
      for (Proposal& proposal : proposals) {
        const Digest digest = digest_of(proposal.text);
        if (archive_.tried(digest)) continue;
        archive_.mark_tried(digest);
        pending_.push_back(std::move(proposal));
      }
      if (!pending_.empty()) return Ok{};
    }
    summary_.exhausted = true;
    return Ok{};
  }

  Status submit(Proposal proposal, Depth depth = Depth::kScreen) {
    LATHE_TRY(const Ticket ticket,
              context_.evaluator.submit(
                  {.task = context_.task, .text = proposal.text, .depth = depth, .cancel = context_.stop}));
    flights_[ticket] = {std::move(proposal.text), std::move(proposal.lineage), steady_clock().now_ns()};
    return Ok{};
  }

  /// Stores a finished evaluation: only then does it count. What was cancelled leaves no trace.
  Status keep(const Evaluated& evaluated) {
    const Flight flight = std::move(flights_[evaluated.ticket]);
    flights_.erase(evaluated.ticket);
    if (!evaluated.verdict.ok()) {
      const Error& error = evaluated.verdict.error();
      return error.code == ErrorCode::kCancelled ? Status(Ok{}) : Status(error);
    }
    Experience experience;
    experience.run = run_;
    experience.sequence = sequence_++;
    experience.task_name = context_.policy_context.task.name;
    experience.task = context_.policy_context.task.digest;
    experience.candidate = digest_of(flight.text);
    experience.candidate_text = flight.text;
    experience.lineage = flight.lineage;
    experience.verdict = *evaluated.verdict;
    experience.cost_seconds = seconds_since(flight.submitted_ns);
    experience.created_unix = unix_seconds();
    LATHE_TRY(experience.id, context_.store.append(experience));
    const bool screened = experience.verdict.depth != Depth::kFinal;
    if (screened) {
      ++screens_;
      ++counts_[std::string(name(experience.verdict.outcome))];
    } else {
      confirmed_.insert(experience.candidate);
    }
    remember(std::move(experience));
    if (screened) report_progress();
    return Ok{};
  }

  /// The best of the screen were chosen for a lucky measurement too: they are measured afresh, at `final`.
  Status confirm() {
    const auto finalists = archive_.best(options_.confirmations);
    int number = 0;
    for (const Experience* best : finalists) {
      ++number;
      if (context_.stop.cancelled()) return Ok{};
      if (confirmed_.contains(best->candidate)) continue;
      context_.events.on_event({Severity::kInfo, "search.confirm",
                                fmt::format("{} evaluations done; measuring the best afresh, {} of {}",
                                            screens_, number, finalists.size())});
      Lineage lineage{{best->candidate}, context_.policy.name(), "confirm", "measured again at final"};
      LATHE_CHECK_OK(submit({best->candidate_text, std::move(lineage)}, Depth::kFinal));
      while (context_.evaluator.in_flight() > 0)
        if (const auto evaluated = context_.evaluator.poll(kPollSeconds)) LATHE_CHECK_OK(keep(*evaluated));
    }
    return Ok{};
  }

  void report_progress() const {
    const auto best = archive_.best(1);
    double left = 0;
    if (options_.max_seconds > 0)
      left = std::max(0.0, options_.max_seconds - seconds());
    else if (screens_ > 0 && options_.max_evaluations > 0)
      left = seconds() / screens_ * std::max(0, options_.max_evaluations - screens_);
    Event event{Severity::kInfo, "search.progress", "", {}};
    event.fields = {{"evaluations", std::to_string(screens_)},
                    {"budget", std::to_string(options_.max_evaluations)},
                    {"best", best.empty() ? "0" : fmt::format("{:.3f}", archive_.fitness(*best[0]))},
                    {"seconds_left", fmt::format("{:.0f}", left)}};
    for (const auto& [outcome, count] : counts_) event.fields["count." + outcome] = std::to_string(count);
    context_.events.on_event(event);
  }

  const SearchContext& context_;
  const std::string& run_;
  const SearchOptions& options_;
  Archive archive_;
  std::int64_t begin_ns_;
  SearchSummary summary_;
  std::vector<Proposal> pending_;
  std::map<Ticket, Flight> flights_;
  std::set<Digest> confirmed_;
  std::map<std::string, int> counts_;
  std::int64_t sequence_ = 0;
  std::int64_t draws_ = 0;
  int screens_ = 0;
};

}  // namespace

Result<SearchSummary> run_search(const SearchContext& context, const std::string& run,
                                 const SearchOptions& options) {
  return Search(context, run, options).go();
}

}  // namespace lathe
