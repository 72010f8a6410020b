#include "gym/shape_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.h"

namespace lathe {
namespace {

constexpr double kAnchorReach = 3;  // an anchor serves candidates within this factor of its time
/// Where the machine disturbs unlike kernels unlike: a peer that is slower than this is another
/// kind of kernel.
constexpr double kUnsteadyReach = 1.5;
constexpr int kFinalRounds = 8;                 // fresh allocations and inputs of a final
constexpr std::int64_t kMostAhead = 128 << 20;  // bytes of a trial, of which a round has two or more
constexpr int kRoundsInFull = 4;                // before the rounds tell how much they differ
constexpr double kScreenPromise = 0.05;         // relative half-widths above which a speed is ambiguous
constexpr double kFinalPromise = 0.015;
constexpr double kDrift = 0.0015;  // standard deviation between finals minutes apart that no round shows
constexpr int kTieRounds = 4;      // fresh allocations and processes that tie a baseline
constexpr int kNearTieRounds = 6, kNearTiePairs = 6;  // that is about as fast as the naive build
constexpr int kTwinRounds = 8;                        // that tell how processes of one kernel differ
constexpr int kFewPairs = 5;                          // are enough where blocks differ by a percent
constexpr double kNormal95 = 1.96;
/// Of what processes differ by: a pair of them known so well widens a screen's interval by a
/// quarter.
constexpr double kKnownWell = 0.8;
constexpr double kFarFaster = kAnchorReach;  // than the naive build: a tie known to a few percent is enough
constexpr double kHopeless = 20;             // times the best peer's time: a screen ends with a few blocks
constexpr double kQuickFactor = 1.5;         // by which the times of a few blocks may be wrong
/// A call in pairs may be so much faster than before them: blocks of too few calls find inputs
/// nearer than longer ones do, and a kernel that knows the number of its block can be slow in the
/// first.
constexpr double kSettled = 1.3;
constexpr int kMostAttempts = 4;     // at timing a candidate in blocks as long as its calls ask for
constexpr double kRemembers = 1.15;  // how much longer unseen inputs take than others where it is tampering
constexpr std::size_t kFreshProcesses = 4;  // that must confirm that they take longer at all
constexpr int kMostProcesses = 8;           // that may meet them disturbed
constexpr std::size_t kFewestExcesses = 4;  // of a final's rounds
constexpr double kRoofMargin = 0.8;         // measured peaks are themselves uncertain

Interval exp_of(const Interval& log) { return {std::exp(log.low), std::exp(log.mid), std::exp(log.high)}; }

/// log a + log b with independent errors: half-widths add in quadrature.
Interval plus(const Interval& a, const Interval& b) {
  return {a.mid + b.mid - std::hypot(a.mid - a.low, b.mid - b.low), a.mid + b.mid,
          a.mid + b.mid + std::hypot(a.high - a.mid, b.high - b.mid)};
}

Interval minus(const Interval& a, const Interval& b) { return plus(a, {-b.high, -b.mid, -b.low}); }

/// Where the same measurement in a fresh process falls, 95 times in 100. Rounds differ by what
/// processes and allocations do to a kernel and by noise within a round, whose size their samples
/// tell: the first is in every process anew, the second is averaged by the fresh measurement as by
/// this one. Both also share what a whole final has in common (results/cpu/timing.md).
Interval prediction_interval(const std::vector<RatioEstimate>& rounds) {
  std::vector<double> middles, noise_variances;
  for (const RatioEstimate& round : rounds) {
    const Interval interval = signed_rank_interval(round.samples, 0.05);
    const double freedom = static_cast<double>(round.samples.size()) - 1;
    const double standard_error = (interval.high - interval.low) / 2 / student_t(freedom, 0.05);
    middles.push_back(round.log_ratio.mid);
    noise_variances.push_back(standard_error * standard_error);
  }
  const auto n = static_cast<double>(rounds.size());
  const TrimmedMean typical = trimmed_mean(middles);  // one round in ten is spoilt by the machine
  const double own_variance = typical.standard_error * typical.standard_error;
  const double between_processes = std::max(0.0, n * own_variance - mean(noise_variances));
  const double half =
      student_t(n - 3, 0.05) * std::sqrt(between_processes + 2 * own_variance + 2 * kDrift * kDrift);
  return {typical.mean - half, typical.mean, typical.mean + half};
}

double median_call(const std::vector<RatioEstimate>& rounds) {
  std::vector<double> call_ns;
  for (const RatioEstimate& round : rounds) call_ns.push_back(round.candidate_ns);
  return median(call_ns);
}

/// No round needs to be known better than the rounds differ.
double spread_of(const std::vector<RatioEstimate>& rounds) {
  std::vector<double> middles;
  for (const RatioEstimate& round : rounds) middles.push_back(round.log_ratio.mid);
  return stddev(middles);
}

/// Of rounds whose true log ratios are 0, less what the noise within them explains.
double spread_beyond_noise(const std::vector<RatioEstimate>& rounds) {
  double beyond = 0;
  for (const RatioEstimate& round : rounds) {
    const double error = stddev(round.samples) / std::sqrt(static_cast<double>(round.samples.size()));
    beyond += round.log_ratio.mid * round.log_ratio.mid - error * error;
  }
  return std::sqrt(std::max(0.0, beyond / static_cast<double>(rounds.size())));
}

/// What the candidate takes longer, in logarithms, than was measured.
void slow_down(RatioEstimate& estimate, double log) {
  estimate.log_ratio = plus(estimate.log_ratio, {-log, -log, -log});
  estimate.candidate_ns *= std::exp(log);
}

Finding never_undisturbed() {
  return {Outcome::kInfra, "disturbed", "no block on inputs new to its process ran undisturbed"};
}

bool has_settled(double call_ns, const TimingRule& rule) { return kSettled * call_ns >= rule.call_ns; }

Finding never_settled() {
  return {Outcome::kInfra, "unsettled", "calls were much faster in pairs than before them, again and again"};
}

/// Where the mean of further rounds falls, 95 times in 100 (Student t).
Interval mean_interval(const std::vector<double>& rounds) {
  const double half = student_half_width(rounds, 0.05);
  return {mean(rounds) - half, mean(rounds), mean(rounds) + half};
}

double roof_over(const Anchor& baseline, double floor_ns) {
  return floor_ns > 0 ? baseline.call_ns / floor_ns : 0;
}

}  // namespace

std::vector<Speedup> fallback_speedups(std::span<const Anchor> peers, const std::string& best_peer,
                                       const std::string& shape, double floor_ns) {
  const auto best = std::ranges::find(peers, best_peer, &Anchor::name);
  std::vector<Speedup> speedups;
  for (const Anchor& peer : peers) {
    const bool itself = peer.name == best_peer;
    const Interval log = itself ? Interval{} : minus(best->log_vs_naive, peer.log_vs_naive);
    speedups.push_back({peer.name, shape, exp_of(log)});
    speedups.back().roof = roof_over(peer, floor_ns);
  }
  return speedups;
}

Finding ShapeTimer::open(const Built& built, std::shared_ptr<const Workload> workload, Runner runner,
                         std::unique_ptr<Session>& session) const {
  auto opened = site_.backend.open(built.candidate, built.artifact, std::move(workload), runner);
  if (opened.ok()) {
    session = *std::move(opened);
    return {};
  }
  return judge_open(opened.error());
}

TimingRule ShapeTimer::on_this_device(TimingRule rule) const {
  const DeviceInfo& device = site_.backend.device();
  if (device.steady) {
    rule.blocks = 1;
    rule.block_ns /= 2;
  }
  rule.block_ns = std::max(rule.block_ns, device.least_block_ns);
  rule.deals = device.deals_trials;
  return rule;
}

PairOutcome ShapeTimer::time_against(const Anchor& anchor, Session& session, const Round& round) const {
  std::unique_ptr<Session> anchor_session;
  PairOutcome outcome;
  outcome.finding = open({anchor.candidate, anchor.artifact}, round.workload, runner_of_baseline(anchor.peer),
                         anchor_session);
  if (!outcome.finding.passed()) return outcome;
  TimingRule rule = round.rule;
  rule.timeout_seconds = site_.block_timeout_seconds;
  rule.rms = &round.rms;
  rule.anchor_ns = anchor.call_ns;
  return time_pair(*anchor_session, session, *round.workload, rule, round.secret);
}

TiedAnchor ShapeTimer::tie(const std::string& name, bool peer, const Candidate& candidate,
                           const Artifact& artifact) {
  Anchor anchor{name, candidate, artifact, peer};
  const bool first = peers_.empty();
  const Anchor& opponent = first ? anchor : peer ? peers_.front() : fastest_peer();
  TimingRule rule = on_this_device(tie_rule());
  rule.trusts_candidate = true;
  const int blocks = std::exchange(rule.blocks, 1);
  std::vector<double> rounds, call_ns;
  int wanted = first ? 1 : kTieRounds;
  for (int round = 0; round < wanted; ++round) {
    std::unique_ptr<Session> session;
    Finding opened = open({candidate, artifact}, site_.shape.timing, runner_of_baseline(peer), session);
    if (!opened.passed()) return {std::move(opened), {}};
    const Seed secret = secret_.derive("baseline", static_cast<std::uint64_t>(round));
    PairOutcome pair =
        time_against(opponent, *session, {site_.shape.timing, site_.shape.timing_rms, rule, secret});
    if (!pair.finding.passed()) return {std::move(pair.finding), {}};
    rounds.push_back(pair.estimate.log_ratio.mid);
    const bool precisely = !first && !site_.backend.device().steady;
    if (round == 0 && precisely && rounds.back() <= std::log(kFarFaster)) {
      rule.looks = {kNearTiePairs};
      rule.blocks = blocks;
      wanted = kNearTieRounds;
    }
    call_ns.push_back(pair.estimate.candidate_ns);
    rule.call_ns = pair.estimate.candidate_ns;
    anchor.spread = std::max(anchor.spread, pair.estimate.spread);
    anchor.pairs += static_cast<int>(pair.estimate.samples.size());
  }
  if (!first) {
    anchor.tied_to = opponent.name;
    anchor.log_vs_tied = mean_interval(rounds);
    anchor.log_vs_naive = plus(anchor.log_vs_tied, opponent.log_vs_naive);
  }
  anchor.rounds = wanted;
  anchor.call_ns = median(call_ns);
  if (!first && !peer && !site_.backend.device().steady) {
    const auto between = spread_between_processes(anchor, rule);
    if (!between.ok()) return {{Outcome::kInfra, "anchor_failed", between.error().to_string()}, {}};
    anchor.process_spread = *between;
  }
  return {{}, std::move(anchor)};
}

Result<double> ShapeTimer::spread_between_processes(const Anchor& anchor, TimingRule rule) const {
  std::vector<RatioEstimate> rounds;
  rule.looks = {kNearTiePairs};
  for (int round = 0; round < kTwinRounds; ++round) {
    LATHE_TRY(const auto session, site_.backend.open(anchor.candidate, anchor.artifact, site_.shape.timing,
                                                     runner_of_baseline(anchor.peer)));
    PairOutcome pair = time_against(anchor, *session,
                                    {site_.shape.timing, site_.shape.timing_rms, rule,
                                     secret_.derive("twin", static_cast<std::uint64_t>(round))});
    if (!pair.finding.passed())
      return Error{ErrorCode::kUnavailable, pair.finding.reason, pair.finding.detail};
    rounds.push_back(std::move(pair.estimate));
  }
  return spread_beyond_noise(rounds);
}

Result<RmsLimits> ShapeTimer::naive_rms(const std::shared_ptr<const Workload>& workload) const {
  const Anchor& naive = peers_.front();
  LATHE_TRY(const auto session,
            site_.backend.open(naive.candidate, naive.artifact, workload, runner_of_baseline(naive.peer)));
  return measure_naive_rms(*session, *workload, site_.block_timeout_seconds);
}

const Anchor& ShapeTimer::choose_anchor(double call_ns, bool peers_only) const {
  const auto distance = [&](const Anchor& anchor) { return std::fabs(std::log(anchor.call_ns / call_ns)); };
  const Anchor& fastest = fastest_peer();
  const Anchor& peer =
      distance(fastest) < std::log(kAnchorReach) ? fastest : *std::ranges::min_element(peers_, {}, distance);
  if (peers_only || !stand_ins_ || !outruns_peers(call_ns)) return peer;
  const auto other = std::ranges::min_element(*stand_ins_, {}, distance);
  return other == stand_ins_->end() || distance(peer) < distance(*other) ? peer : *other;
}

bool ShapeTimer::outruns_peers(double call_ns) const {
  const double reach = site_.backend.device().steady ? kAnchorReach : kUnsteadyReach;
  return call_ns * reach <= fastest_peer().call_ns;
}

ShapeTiming ShapeTimer::screen(const Candidate& candidate, const Artifact& artifact,
                               std::unique_ptr<Session> session) {
  ShapeTiming result;
  if (!session) result.finding = open({candidate, artifact}, site_.shape.timing, {}, session);
  if (!result.finding.passed()) return result;
  Round round{site_.shape.timing, site_.shape.timing_rms, on_this_device(screen_rule()),
              secret_.derive("screen")};
  round.rule.half_width =
      std::max(round.rule.half_width, kKnownWell * kNormal95 * site_.backend.device().process_spread);
  if (site_.backend.device().steady) round.rule.looks.insert(round.rule.looks.begin(), kFewPairs);
  hold_back(round);
  const QuickTime quick =
      time_quickly(*session, *site_.shape.timing, round.rule, round.secret.derive("quick"));
  if (!quick.finding.passed()) return result.finding = quick.finding, result;
  round.rule.call_ns = quick.call_ns;
  if (quick.quiet && quick.call_ns > kHopeless * fastest_peer().call_ns)
    return end_early(quick, result), result;
  const Anchor* chosen = nullptr;
  FairOutcome fair;
  for (int attempt = 0;; ++attempt) {
    if (attempt == kMostAttempts) return result.finding = never_settled(), result;
    if (attempt > 0) {
      round.rule.call_ns = fair.pair.estimate.candidate_ns;
      round.secret = secret_.derive("settle", static_cast<std::uint64_t>(attempt));
      // This one has met the inputs that were held back.
      result.finding = open({candidate, artifact}, site_.shape.timing, {Runner::kFresh}, session);
      if (!result.finding.passed()) return result;
      hold_back(round);
    }
    if (!stand_ins_ && outruns_peers(round.rule.call_ns)) return result.wants_stand_ins = true, result;
    chosen = &choose_anchor(round.rule.call_ns, false);
    fair = time_fairly(*chosen, *session, round, {candidate, artifact});
    if (!fair.pair.finding.passed()) return result.finding = fair.pair.finding, result;
    if (has_settled(fair.pair.estimate.candidate_ns, round.rule)) break;
  }
  const Anchor& anchor = *chosen;
  RatioEstimate estimate = fair.pair.estimate;
  if (fair.excess) result.finding = take_off(*fair.excess, estimate, result);
  if (!result.finding.passed()) return result;
  const double other_processes =
      kNormal95 * std::hypot(site_.backend.device().process_spread, anchor.process_spread);
  estimate.log_ratio = plus(estimate.log_ratio, {-other_processes, 0, other_processes});
  compose(anchor, estimate, false, result);
  return result;
}

const Anchor& ShapeTimer::fastest_peer() const {
  const Anchor* fastest = &peers_.front();
  for (const Anchor& anchor : peers_)
    if (anchor.call_ns < fastest->call_ns) fastest = &anchor;
  return *fastest;
}

/// How hopeless, nobody needs to know precisely.
void ShapeTimer::end_early(const QuickTime& quick, ShapeTiming& result) const {
  result.timing = {site_.shape.name, quick.call_ns, 0, 0, 1};
  for (const Anchor& peer : peers_) {
    const double ratio = peer.call_ns / quick.call_ns;
    result.speedups.push_back(
        {peer.name, site_.shape.name, {ratio / kQuickFactor, ratio, ratio * kQuickFactor}, true});
  }
}

QuickTime ShapeTimer::time_alone(const Built& built, const Seed& secret) const {
  QuickTime quick;
  std::unique_ptr<Session> session;
  quick.finding = open(built, site_.shape.timing, {}, session);
  if (!quick.finding.passed()) return quick;
  TimingRule rule;
  rule.timeout_seconds = site_.block_timeout_seconds;
  rule.rms = &site_.shape.timing_rms;
  rule.deals = site_.backend.device().deals_trials;
  return time_quickly(*session, *site_.shape.timing, rule, secret);
}

Result<std::shared_ptr<const Workload>> ShapeTimer::make_round_data(double call_ns, int number) const {
  const int trials = at_least_a_deck(std::min(site_.shape.final_trials, trials_for_calls_of(call_ns)),
                                     site_.backend.device());
  return make_timing_workload(site_.backend, site_.reference, site_.shape.task, round_secret(number), trials,
                              {.with_guest = true});
}

PairOutcome ShapeTimer::time_round(const Built& built, const Anchor& anchor, const TimingRule& rule,
                                   int number, const std::shared_ptr<const Workload>& workload) const {
  PairOutcome result;
  std::unique_ptr<Session> session;
  result.finding = open(built, workload, {1 + number}, session);
  if (!result.finding.passed()) return result;
  const auto rms = naive_rms(workload);
  if (!rms.ok()) return result.finding = {Outcome::kInfra, "anchor_failed", rms.error().to_string()}, result;
  Round round{workload, *rms, rule, round_secret(number)};
  hold_back(round);
  return time_against(anchor, *session, round);
}

std::vector<std::shared_ptr<const Workload>> ShapeTimer::make_data_ahead(double call_ns) const {
  const Workload& screened = *site_.shape.timing;
  const auto bytes_of_trial = screened.memory().host / static_cast<std::int64_t>(screened.trials.size());
  if (!site_.backend.device().steady || bytes_of_trial > kMostAhead) return {};
  std::vector<std::shared_ptr<const Workload>> data(kFinalRounds);
  (void)for_each_index(kFinalRounds, kFinalRounds, [&](int i) -> Status {
    LATHE_TRY(data[static_cast<std::size_t>(i)], make_round_data(call_ns, i));
    return Ok{};
  });
  return data;
}

ShapeTimer::FinalRounds ShapeTimer::time_rounds(const Built& built, const Anchor& anchor,
                                                const TimingRule& rule, int first, int count,
                                                std::span<std::shared_ptr<const Workload>> ahead) const {
  std::vector<PairOutcome> done(static_cast<std::size_t>(count));
  (void)for_each_index(count, site_.backend.device().lanes, [&](int i) -> Status {
    PairOutcome& round = done[static_cast<std::size_t>(i)];
    const auto number = static_cast<std::size_t>(first + i);
    std::shared_ptr<const Workload> workload;
    if (number < ahead.size()) workload = std::move(ahead[number]);
    if (!workload) {
      auto made = make_round_data(std::min(rule.call_ns, anchor.call_ns), first + i);
      if (!made.ok()) {
        round.finding = {Outcome::kInfra, "workload", made.error().to_string()};
        return made.error();
      }
      workload = *std::move(made);
    }
    round = time_round(built, anchor, rule, first + i, workload);
    if (round.finding.passed()) return Ok{};
    return Error{ErrorCode::kInternal, "ends the wave"};
  });
  FinalRounds rounds;
  for (PairOutcome& round : done) {
    if (!round.finding.passed()) return {std::move(round.finding), {}};
    rounds.estimates.push_back(std::move(round.estimate));
  }
  return rounds;
}

ShapeTiming ShapeTimer::final(const Candidate& candidate, const Artifact& artifact) {
  ShapeTiming result;
  const Built built{candidate, artifact};
  const QuickTime quick = time_alone(built, secret_.derive("quick"));
  if (!quick.finding.passed()) return result.finding = quick.finding, result;
  TimingRule rule = on_this_device(final_rule());
  rule.call_ns = quick.call_ns;
  const Anchor* anchor = &choose_anchor(rule.call_ns, true);
  auto ahead = make_data_ahead(std::min(rule.call_ns, anchor->call_ns));
  // The first rounds tell whether blocks are long enough, then how much rounds differ, and with
  // that how precise the others need to be.
  FinalRounds rounds;
  int first = 0;
  for (int attempt = 1;; ++attempt) {
    rounds = time_rounds(built, *anchor, rule, first, kRoundsInFull, ahead);
    if (!rounds.finding.passed()) return result.finding = rounds.finding, result;
    const double call_ns = median_call(rounds.estimates);
    if (has_settled(call_ns, rule)) break;
    if (attempt == kMostAttempts) return result.finding = never_settled(), result;
    rule.call_ns = call_ns;
    anchor = &choose_anchor(call_ns, true);
    ahead.clear();
    first += kFinalRounds;
  }
  rule.half_width = std::max(rule.half_width, spread_of(rounds.estimates));
  FinalRounds others =
      time_rounds(built, *anchor, rule, first + kRoundsInFull, kFinalRounds - kRoundsInFull, ahead);
  if (!others.finding.passed()) return result.finding = others.finding, result;
  std::ranges::move(others.estimates, std::back_inserter(rounds.estimates));
  RatioEstimate estimate;
  std::vector<double> excesses;
  for (const RatioEstimate& round : rounds.estimates) {
    if (const auto excess = excess_of(round)) excesses.push_back(excess->log);
    estimate.samples.insert(estimate.samples.end(), round.samples.begin(), round.samples.end());
    estimate.spread = std::max(estimate.spread, round.spread);
  }
  estimate.log_ratio = prediction_interval(rounds.estimates);
  if (site_.backend.device().runners_remember) {
    if (excesses.size() < kFewestExcesses) return result.finding = never_undisturbed(), result;
    result.finding = take_off(excess_of(excesses), estimate, result);
    if (!result.finding.passed()) return result;
  }
  estimate.candidate_ns = median_call(rounds.estimates);
  compose(*anchor, estimate, true, result);
  return result;
}

void ShapeTimer::compose(const Anchor& anchor, const RatioEstimate& estimate, bool final_depth,
                         ShapeTiming& result) const {
  result.timing = {site_.shape.name, estimate.candidate_ns, estimate.spread,
                   static_cast<int>(estimate.samples.size()), final_depth ? kFinalRounds : 1};
  const double promise = final_depth ? kFinalPromise : kScreenPromise;
  const auto peaks = site_.backend.peaks();
  const double floor_ns = peaks.ok() ? peaks->floor_ns(site_.shape.task) : 0;
  for (const Anchor& baseline : peers_) {
    Interval log = estimate.log_ratio;
    if (baseline.name == anchor.tied_to)
      log = plus(log, anchor.log_vs_tied);
    else if (&baseline != &anchor)
      log = plus(log, minus(anchor.log_vs_naive, baseline.log_vs_naive));
    Speedup speedup{baseline.name, site_.shape.name, exp_of(log)};
    speedup.ambiguous = (log.high - log.low) / 2 > promise;
    speedup.roof = roof_over(baseline, floor_ns);
    result.speedups.push_back(std::move(speedup));
  }
  result.finding = check_roof(estimate.candidate_ns);
}

void ShapeTimer::hold_back(Round& round, int process) const {
  Ring ring = draw_ring(*round.workload, site_.backend.device().runners_remember,
                        round.secret.derive("ring", static_cast<std::uint64_t>(process)));
  round.rule.timeout_seconds = site_.block_timeout_seconds;
  round.rule.rms = &round.rms;
  round.rule.trials = std::move(ring.usual);
  round.rule.unseen = std::move(ring.unseen);
}

ShapeTimer::FairOutcome ShapeTimer::time_fairly(const Anchor& anchor, Session& session, const Round& round,
                                                const Built& built) const {
  FairOutcome result{time_against(anchor, session, round)};
  Finding& finding = result.pair.finding;
  if (!finding.passed() || !site_.backend.device().runners_remember) return result;
  result.excess = excess_of(result.pair.estimate);
  std::size_t found = result.excess ? 1 : 0;
  double elsewhere = 0;  // by how much, in logarithms, another process is slower
  for (int process = 1; !result.excess || (result.excess->low > 0 && found <= kFreshProcesses); ++process) {
    if (process > kMostProcesses) return finding = never_undisturbed(), result;
    std::unique_ptr<Session> fresh;
    finding = open(built, round.workload, {Runner::kFresh}, fresh);
    if (!finding.passed()) return result;
    Round again{round.workload, round.rms, round.rule,
                round.secret.derive("confirm", static_cast<std::uint64_t>(process))};
    again.rule.looks = {kFewPairs};
    hold_back(again, process);
    PairOutcome other = time_against(anchor, *fresh, again);
    if (!other.finding.passed()) return {std::move(other)};
    const auto further = excess_of(other.estimate);
    if (!further) continue;
    ++found;
    const Interval& other_log = other.estimate.log_ratio;
    if (const double log = result.pair.estimate.log_ratio.mid; log > other_log.high)
      elsewhere = std::max(elsewhere, log - other_log.mid);
    if (!result.excess || further->low < result.excess->low) result.excess = further;
  }
  // A kernel that remembers where it is not looked at gains nothing by it.
  slow_down(result.pair.estimate, elsewhere);
  return result;
}

Finding ShapeTimer::take_off(const Excess& excess, RatioEstimate& estimate, ShapeTiming& result) {
  result.unseen_over_usual = std::exp(excess.log);
  if (excess.low <= 0) return {};
  if (excess.log >= std::log(kRemembers))
    return {Outcome::kTampered, "remembers",
            fmt::format("a call takes {:.3g} times as long on inputs that its process has not met",
                        result.unseen_over_usual)};
  slow_down(estimate, excess.log);
  return {};
}

Finding ShapeTimer::check_roof(double call_ns) const {
  const auto judge = [&](const Result<DevicePeaks>& peaks) -> Finding {
    if (!peaks.ok()) return {};
    const double memory_ns = 1e9 * peaks->memory_floor_seconds(site_.shape.task.bytes_min);
    const double flops_ns =
        1e9 * site_.shape.task.essential_flops / peaks->flops_limit(*site_.shape.task.spec);
    if (call_ns < kRoofMargin * memory_ns)
      return {Outcome::kTampered, "roofline",
              fmt::format("{:.3g} ns a call at {}, where moving the mandatory bytes takes {:.3g} ns", call_ns,
                          site_.shape.name, memory_ns)};
    if (call_ns < kRoofMargin * flops_ns)
      return {Outcome::kSuspect, "flops_floor",
              fmt::format("{:.3g} ns a call at {}, where the textbook's arithmetic takes {:.3g} ns", call_ns,
                          site_.shape.name, flops_ns)};
    return {};
  };
  // Peaks are measured, so they can be too low: an accusation rests on a second measurement.
  const Finding first = judge(site_.backend.peaks());
  return first.passed() ? first : judge(site_.backend.remeasure_peaks());
}

}  // namespace lathe
