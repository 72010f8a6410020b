#include "gym/pair_timer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace lathe {
namespace {

constexpr double kCheckedElements = 1 << 17;  // of a timed block, at most
constexpr double kMuchSlower = 2;
constexpr int kQuickRounds = 3, kMostQuickRounds = 8;
/// Of calls so short that more rounds cost little: a process's first ones are often slow.
constexpr int kMostShortRounds = 14;
constexpr double kShortRoundsNs = 1e7, kStillImproves = 0.9;
constexpr int kGuestRound = 2;             // the first that is sure to be as long as timed blocks
constexpr std::size_t kHeldBackOneOf = 2;  // trials, for blocks on these are as long as the others
constexpr double kClockMoves = 1.02;       // between blocks of a pair: kernels met different devices
constexpr int kTiePairs = 4;
constexpr int kPairsOfGuest = 4;     // the candidate meets one guest in about so many
constexpr int kMaxDroppedShare = 2;  // give up dropping once as many pairs were dropped as kept, times this
constexpr int kOwnDisturbances = 4;  // of a candidate, beyond twice its anchor's
constexpr double kSlowInMany = 0.1;  // in logarithms, beyond the anchor's: not what the machine does
constexpr double kPlausibleNoise = 0.05;  // of a pair: a kernel that makes more of it does not hide in it

/// What a rule's blocks draw from, in a secret order.
std::vector<int> shuffled(const Workload& workload, const TimingRule& rule, Rng& rng) {
  std::vector<int> trials = rule.trials;
  if (trials.empty()) trials = trials_of_timed_blocks(workload);
  rng.shuffle(trials);
  return trials;
}

/// What blocks get their trials from.
class Deck {
 public:
  Deck(const Workload& workload, const TimingRule& rule, Rng& rng)
      : workload_(workload), rule_(rule), rng_(rng) {}

  std::vector<int> draw(int calls) {
    const auto count = static_cast<std::size_t>(calls);
    if (!rule_.deals || left_.size() < count) left_ = shuffled(workload_, rule_, rng_);
    std::vector<int> trials(left_.begin(), left_.begin() + calls);
    left_.erase(left_.begin(), left_.begin() + calls);
    return trials;
  }

 private:
  const Workload& workload_;
  const TimingRule& rule_;
  Rng& rng_;
  std::vector<int> left_;
};

int calls_for(double block_ns, double call_ns, const Workload& workload, const TimingRule& rule) {
  const double wanted = std::ceil(block_ns / std::max(call_ns, 1.0));
  std::size_t most = rule.trials.empty() ? workload.timed_trials() : rule.trials.size();
  if (!rule.unseen.empty()) most = std::min(most, rule.unseen.size());
  return static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(most)));
}

/// The share of its outputs that a block compares: comparing must not take longer than running.
double fraction_of(const Workload& workload, std::size_t trials) {
  double elements = 0;
  for (const Expected& output : workload.trials.front().expected)
    elements += static_cast<double>(output.value.data.size());
  return std::min(1.0, kCheckedElements / (elements * static_cast<double>(trials)));
}

BlockOutcome run_block(Session& session, const Workload& workload, const std::vector<int>& trials,
                       const TimingRule& rule, Rng& rng) {
  BlockRequest request;
  request.trials = trials;
  request.check_fraction = fraction_of(workload, trials.size());
  request.timeout_seconds = rule.timeout_seconds;
  request.secret = rng.next();
  request.rms = rule.rms;
  request.poison = rng.below(2) == 0 ? kPoisonNan : kPoisonOdd;
  request.timed = true;
  return session.run(request);
}

/// By ranks, which outliers hardly move; of fewer samples than ranks can serve, by Student's t.
Interval interval(const std::vector<double>& samples, double alpha) {
  const Interval ranked = signed_rank_interval(samples, alpha);
  if (std::isfinite(ranked.low) || samples.size() < 2) return ranked;
  const double half = student_half_width(samples, alpha);
  return {ranked.mid - half, ranked.mid, ranked.mid + half};
}

/// Puts the guest into the last quarter of a block, where a kernel that takes what it meets first
/// for all that will come has done so.
void invite(const Workload& workload, std::vector<int>& trials, Rng& rng) {
  if (workload.guest < 0) return;
  const std::uint64_t from_end = rng.below(1 + trials.size() / 4);
  trials[trials.size() - 1 - from_end] = workload.guest;
}

constexpr double kNever = std::numeric_limits<double>::infinity();

/// One pair: a call's time in the better of each kernel's blocks, for what the machine does only
/// slows.
struct Pair {
  double anchor_ns = kNever;
  double candidate_ns = kNever;
  std::vector<double> anchor_logs = {}, candidate_logs = {};  ///< of a call's mean time, one a block
  double slowest_mhz = kNever;  ///< of the blocks that say how fast the device ran
  double fastest_mhz = 0;

  void take_clock(double mhz) {
    if (mhz <= 0) return;
    slowest_mhz = std::min(slowest_mhz, mhz);
    fastest_mhz = std::max(fastest_mhz, mhz);
  }
  bool clock_moved() const { return fastest_mhz > kClockMoves * slowest_mhz; }
};

struct PairRun {
  Finding finding;
  Pair pair;
  bool waited = false;  ///< the candidate's wait counts, while its anchor's would not
};

class PairTimer {
 public:
  PairTimer(Session& anchor, Session& candidate, const Workload& workload, const TimingRule& rule,
            const Seed& secret)
      : anchor_(anchor),
        candidate_(candidate),
        workload_(workload),
        rule_(rule),
        rng_(secret),
        deck_(workload, rule, rng_),
        judge_(workload) {}

  PairOutcome run() {
    PairOutcome result;
    double call_ns = rule_.call_ns;
    if (call_ns <= 0) {
      const QuickTime quick = time_quickly(candidate_, workload_, rule_, Seed::from_number(rng_.next()));
      if (!quick.finding.passed()) return result.finding = quick.finding, result;
      call_ns = quick.call_ns;
    }
    calls_ = calls_for(rule_.block_ns, call_ns, workload_, rule_);
    const bool slow_anchor = rule_.anchor_ns > kMuchSlower * call_ns;
    anchor_block_calls_ = slow_anchor ? calls_for(rule_.block_ns, rule_.anchor_ns, workload_, rule_) : calls_;
    for (const int look : rule_.looks) {
      while (static_cast<int>(anchor_calls_.size()) < look) {
        PairRun run = run_pair();
        if (!run.finding.passed()) return result.finding = std::move(run.finding), result;
        take(run.pair, result.estimate);
      }
      examine(result.estimate);
      if (result.estimate.converged) break;
    }
    count_slow_blocks(result.estimate);
    if (workload_.guest >= 0 && !met_guest_) result.finding = meet_guest();
    if (result.finding.passed()) result.finding = meet_unseen(result.estimate);
    result.estimate.dropped = dropped_;
    summarise(result.estimate);
    return result;
  }

 private:
  /// Of blocks and pairs; a machine that disturbs all of them is measured as it is.
  bool may_drop() const { return dropped_ < kMaxDroppedShare * (static_cast<int>(anchor_calls_.size()) + 4); }

  /// A kernel can have itself disturbed (it may yield its processor), and would choose with that
  /// which of its blocks count. The machine disturbs the anchor as often.
  bool may_drop_block(bool anchor) const {
    const double usual = anchor_blocks_.run == 0 ? 0.0 : 1.0 * anchor_blocks_.disturbed / anchor_blocks_.run;
    const bool by_itself =
        !anchor && candidate_blocks_.disturbed > 2 * usual * candidate_blocks_.run + kOwnDisturbances;
    return may_drop() && !by_itself;
  }

  /// Else a disturbed block must serve: there may be no other.
  bool mostly_undisturbed(bool anchor) const {
    const Blocks& blocks = anchor ? anchor_blocks_ : candidate_blocks_;
    return 2 * blocks.disturbed <= blocks.run;
  }

  /// Before any block of the candidate, whose process may live on and see by the clock how many
  /// blocks of its anchor ran meanwhile.
  Finding meet_guests() {
    if (workload_.guest < 0) return {};
    Finding finding;
    while (finding.passed() && rng_.chance(1.0 / (kPairsOfGuest * rule_.blocks))) finding = meet_guest();
    return finding;
  }

  /// A block like the timed ones, but for its guest, and untimed.
  Finding meet_guest() {
    met_guest_ = true;
    std::vector<int> trials = deck_.draw(calls_);
    invite(workload_, trials, rng_);
    return judge_.judge(run_block(candidate_, workload_, trials, rule_, rng_), trials);
  }

  PairRun run_pair() {
    PairRun result;
    std::vector<int> trials;
    bool anchor = rng_.chance(0.5);
    for (int position = 0; position < 2 * rule_.blocks && result.finding.passed(); ++position) {
      if (position % 2 == 0)
        trials = deck_.draw(calls_);  // the kernel before goes on
      else
        anchor = !anchor;
      run_one(anchor, trials, result);
    }
    for (const bool side : {true, false})  // once more what the machine disturbed
      while (result.finding.passed() && (side ? result.pair.anchor_ns : result.pair.candidate_ns) == kNever)
        run_one(side, deck_.draw(calls_), result);
    return result;
  }

  void run_one(bool anchor, const std::vector<int>& trials, PairRun& result) {
    run_one(anchor, trials, result, may_drop_block(anchor));
  }

  void run_one(bool anchor, const std::vector<int>& trials, PairRun& result, bool drop_disturbed) {
    if (!anchor) result.finding = meet_guests();
    if (!result.finding.passed()) return;
    std::vector<int> own = trials;
    if (anchor) own.resize(std::min(own.size(), static_cast<std::size_t>(anchor_block_calls_)));
    const BlockOutcome outcome = run_block(anchor ? anchor_ : candidate_, workload_, own, rule_, rng_);
    result.finding = anchor ? judge_block(outcome, workload_, own) : judge_.judge(outcome, own);
    if (!result.finding.passed()) {
      if (anchor)
        result.finding = {Outcome::kInfra, "anchor_failed",
                          result.finding.reason + ": " + result.finding.detail};
      return;
    }
    Blocks& blocks = anchor ? anchor_blocks_ : candidate_blocks_;
    ++blocks.run;
    blocks.disturbed += outcome.disturbed;
    // A baseline's own word serves where the machine was busy: were its wait counted, whoever is
    // timed beside it would look faster than it is.
    const bool believed = outcome.disturbed && outcome.own_ns > 0 && (anchor || rule_.trusts_candidate);
    if (outcome.disturbed && !believed && drop_disturbed) {
      ++dropped_;
      return;
    }
    result.pair.take_clock(outcome.clock_mhz);
    result.waited |= !anchor && outcome.disturbed && outcome.own_ns > 0 && !believed;
    const double block_ns = believed ? std::min(outcome.own_ns, outcome.wall_ns) : outcome.wall_ns;
    const double mean_ns = block_ns / static_cast<double>(own.size());
    (anchor ? result.pair.anchor_logs : result.pair.candidate_logs).push_back(std::log(mean_ns));
    double& call_ns = anchor ? result.pair.anchor_ns : result.pair.candidate_ns;
    call_ns = std::min(call_ns, mean_ns);
  }

  Finding meet_unseen(RatioEstimate& estimate) {
    const auto calls = static_cast<std::size_t>(calls_);
    for (std::size_t first = 0; first + calls <= rule_.unseen.size(); first += calls) {
      const auto begin = rule_.unseen.begin() + static_cast<std::ptrdiff_t>(first);
      const std::vector<int> trials(begin, begin + calls_);
      const bool anchor_first = rng_.chance(0.5);
      PairRun run;
      for (const bool anchor : {anchor_first, !anchor_first})
        if (run.finding.passed()) run_one(anchor, trials, run, mostly_undisturbed(anchor));
      if (!run.finding.passed()) return std::move(run.finding);
      const Pair& pair = run.pair;
      if (pair.anchor_ns == kNever || pair.candidate_ns == kNever || (pair.clock_moved() && may_drop()))
        continue;
      if (run.waited) continue;
      estimate.unseen.push_back(std::log(pair.anchor_ns / pair.candidate_ns));
    }
    return {};
  }

  void take(const Pair& pair, RatioEstimate& estimate) {
    if (pair.clock_moved() && may_drop()) {
      ++dropped_;
      return;
    }
    anchor_logs_.insert(anchor_logs_.end(), pair.anchor_logs.begin(), pair.anchor_logs.end());
    candidate_logs_.insert(candidate_logs_.end(), pair.candidate_logs.begin(), pair.candidate_logs.end());
    anchor_calls_.push_back(pair.anchor_ns);
    candidate_calls_.push_back(pair.candidate_ns);
    estimate.samples.push_back(std::log(pair.anchor_ns / pair.candidate_ns));
  }

  /// The better block of a pair, and ranks of pairs, forget what the machine does now and then. A
  /// kernel that is itself slow in many of its blocks is as slow as they are.
  void count_slow_blocks(RatioEstimate& estimate) const {
    const double typical = interquartile_mean(anchor_logs_) - interquartile_mean(candidate_logs_);
    const double uneven = estimate.log_ratio.mid - typical;
    if (uneven <= kSlowInMany) return;
    for (double& sample : estimate.samples) sample -= uneven;
    for (double* log : {&estimate.log_ratio.low, &estimate.log_ratio.mid, &estimate.log_ratio.high})
      *log -= uneven;
  }

  void examine(RatioEstimate& estimate) const {
    estimate.log_ratio = interval(estimate.samples, rule_.alpha / static_cast<double>(rule_.looks.size()));
    estimate.converged = (estimate.log_ratio.high - estimate.log_ratio.low) / 2 <= rule_.half_width;
  }

  void summarise(RatioEstimate& estimate) const {
    estimate.anchor_ns = median(anchor_calls_);
    estimate.candidate_ns = median(candidate_calls_);
    std::vector<double> deviations;
    for (const double call : candidate_calls_) deviations.push_back(std::fabs(call - estimate.candidate_ns));
    estimate.spread = median(deviations) / estimate.candidate_ns;
  }

  Session& anchor_;
  Session& candidate_;
  const Workload& workload_;
  const TimingRule& rule_;
  Rng rng_;
  Deck deck_;
  BlockJudge judge_;            ///< of the candidate
  int calls_ = 1;               ///< of a candidate's block
  int anchor_block_calls_ = 1;  ///< of an anchor's: fewer where it is much slower
  int dropped_ = 0;
  bool met_guest_ = false;
  struct Blocks {
    int run = 0, disturbed = 0;
  };
  Blocks anchor_blocks_, candidate_blocks_;
  std::vector<double> anchor_calls_, candidate_calls_;  ///< one a pair
  std::vector<double> anchor_logs_, candidate_logs_;    ///< one a block of these pairs
};

}  // namespace

TimingRule screen_rule() {
  TimingRule rule;
  rule.block_ns = 3e5;
  rule.looks = {9, 15, 24, 40};
  rule.half_width = 0.05;
  rule.alpha = 0.03;
  return rule;
}

TimingRule tie_rule() {
  TimingRule rule = screen_rule();
  rule.looks = {kTiePairs};
  return rule;
}

TimingRule final_rule() {
  TimingRule rule;
  rule.block_ns = 5e5;
  rule.looks = {8, 12, 18, 26};
  rule.half_width = 0.015;
  return rule;
}

std::vector<int> trials_of_timed_blocks(const Workload& workload) {
  std::vector<int> trials(workload.trials.size());
  std::iota(trials.begin(), trials.end(), 0);
  std::erase(trials, workload.guest);
  return trials;
}

PairOutcome time_pair(Session& anchor, Session& candidate, const Workload& workload, const TimingRule& rule,
                      const Seed& secret) {
  return PairTimer(anchor, candidate, workload, rule, secret).run();
}

QuickTime time_quickly(Session& session, const Workload& workload, const TimingRule& rule,
                       const Seed& secret) {
  Rng rng(secret);
  Deck deck(workload, rule, rng);
  BlockJudge judge(workload);
  QuickTime result;
  result.call_ns = kNever;
  int calls = 1;
  int quiet = 0, since_best = 0;
  double spent_ns = 0, best_ns = kNever;
  const auto wants_more = [&](int round) {
    if (quiet < kQuickRounds && round < kMostQuickRounds) return true;
    return since_best < kQuickRounds && round < kMostShortRounds && spent_ns < kShortRoundsNs;
  };
  for (int round = 0; wants_more(round); ++round) {
    std::vector<int> trials = deck.draw(calls);
    if (round == kGuestRound) invite(workload, trials, rng);
    const BlockOutcome outcome = run_block(session, workload, trials, rule, rng);
    result.finding = judge.judge(outcome, trials);
    if (!result.finding.passed()) return result;
    quiet += !outcome.disturbed;
    result.call_ns = std::min(result.call_ns, outcome.wall_ns / calls);
    spent_ns += outcome.wall_ns;
    ++since_best;
    if (result.call_ns < kStillImproves * best_ns) best_ns = result.call_ns, since_best = 0;
    calls = calls_for(3e5, outcome.disturbed ? result.call_ns / 4 : result.call_ns, workload, rule);
  }
  result.quiet = quiet > 0;
  return result;
}

Ring draw_ring(const Workload& workload, bool hold_back, const Seed& secret) {
  Rng rng(secret);
  Ring ring{shuffled(workload, {}, rng), {}};
  if (!hold_back || ring.usual.size() < 2) return ring;
  const std::size_t held = std::max<std::size_t>(1, ring.usual.size() / kHeldBackOneOf);
  const auto middle = ring.usual.end() - static_cast<std::ptrdiff_t>(held);
  ring.unseen.assign(middle, ring.usual.end());
  ring.usual.erase(middle, ring.usual.end());
  return ring;
}

std::optional<Excess> excess_of(const RatioEstimate& estimate) {
  if (estimate.unseen.empty()) return {};
  const auto pairs = static_cast<double>(estimate.samples.size());
  const auto unseen = static_cast<double>(estimate.unseen.size());
  const double noise = std::min(kPlausibleNoise, stddev(estimate.samples));
  const double standard_error = noise * std::sqrt(1 / pairs + 1 / unseen);
  const double log = estimate.log_ratio.mid - mean(estimate.unseen);
  return Excess{log, log - student_t(std::max(1.0, pairs - 1), 0.05) * standard_error};
}

Excess excess_of(std::span<const double> processes) {
  const auto count = static_cast<double>(processes.size());
  const TrimmedMean typical = trimmed_mean(processes);
  const double standard_error = std::min(kPlausibleNoise / std::sqrt(count), typical.standard_error);
  return {typical.mean, typical.mean - student_t(count - 3, 0.05) * standard_error};
}

}  // namespace lathe
