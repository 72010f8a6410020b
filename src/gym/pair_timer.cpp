#include "gym/pair_timer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace lathe {
namespace {

constexpr double kCheckedElements = 1 << 17;  // of a timed block, at most
constexpr double kMuchSlower = 2;
constexpr std::size_t kHeldBackOneOf = 4;                // trials
constexpr double kForgedNs = 1e3, kForgedShare = 0.005;  // of a block: more delay than the anchor's
constexpr double kClockMoves = 1.02;  // between blocks of a pair: kernels met different devices
constexpr int kMaxDroppedShare = 2;   // give up dropping once as many pairs were dropped as kept, times this

/// What a rule's blocks draw from, in a secret order.
std::vector<int> shuffled(const Workload& workload, const TimingRule& rule, Rng& rng) {
  std::vector<int> trials = rule.trials;
  if (trials.empty()) {
    trials.resize(workload.trials.size());
    std::iota(trials.begin(), trials.end(), 0);
  }
  rng.shuffle(trials);
  return trials;
}

std::vector<int> draw_trials(const Workload& workload, const TimingRule& rule, int count, Rng& rng) {
  std::vector<int> trials = shuffled(workload, rule, rng);
  trials.resize(static_cast<std::size_t>(count));
  return trials;
}

int calls_for(double block_ns, double call_ns, const Workload& workload, const TimingRule& rule) {
  const double wanted = std::ceil(block_ns / std::max(call_ns, 1.0));
  const std::size_t most = rule.trials.empty() ? workload.trials.size() : rule.trials.size();
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
  request.timed = true;
  return session.run(request);
}

constexpr double kNever = std::numeric_limits<double>::infinity();

/// One pair: a call's time in the better of each kernel's blocks, for what the machine does only slows.
/// kNever if it disturbed all.
struct Pair {
  /// A kernel's better block.
  struct Side {
    double wall_ns = kNever;    ///< of a call
    double device_ns = kNever;  ///< likewise; 0 where unknown
    double delay_ns = kNever;   ///< of the block: its wall time less its device time
    double calls = 1;

    void take(const BlockOutcome& outcome, std::size_t count) {
      if (outcome.wall_ns / static_cast<double>(count) >= wall_ns) return;
      calls = static_cast<double>(count);
      wall_ns = outcome.wall_ns / calls;
      device_ns = outcome.device_ns / calls;
      delay_ns = outcome.wall_ns - outcome.device_ns;
    }
  };
  Side anchor, candidate;
  double slowest_mhz = kNever;  ///< of the blocks that say how fast the device ran
  double fastest_mhz = 0;

  void take_clock(double mhz) {
    if (mhz <= 0) return;
    slowest_mhz = std::min(slowest_mhz, mhz);
    fastest_mhz = std::max(fastest_mhz, mhz);
  }
  bool disturbed() const { return anchor.wall_ns == kNever || candidate.wall_ns == kNever; }
  bool clock_moved() const { return fastest_mhz > kClockMoves * slowest_mhz; }
};

struct PairRun {
  Finding finding;
  Pair pair;
};

class PairTimer {
 public:
  PairTimer(Session& anchor, Session& candidate, const Workload& workload, const TimingRule& rule,
            const Seed& secret)
      : anchor_(anchor), candidate_(candidate), workload_(workload), rule_(rule), rng_(secret) {}

  PairOutcome run() {
    PairOutcome result;
    double call_ns = rule_.call_ns;
    if (call_ns <= 0) {
      const QuickTime quick = time_quickly(candidate_, workload_, rule_, Seed::from_number(rng_.next()));
      if (!quick.finding.passed()) return result.finding = quick.finding, result;
      call_ns = quick.call_ns;
    }
    calls_ = anchor_block_calls_ = calls_for(rule_.block_ns, call_ns, workload_, rule_);
    expect(rule_.anchor_ns, call_ns);
    for (const int look : rule_.looks) {
      while (static_cast<int>(pairs_.size()) < look) {
        const bool may_drop =
            result.estimate.dropped < kMaxDroppedShare * static_cast<int>(pairs_.size() + 4);
        const PairRun run = run_pair(may_drop);
        if (!run.finding.passed()) return result.finding = run.finding, result;
        take(run.pair, result.estimate);
      }
      examine(result.estimate);
      if (result.estimate.converged) break;
    }
    summarise(result.estimate);
    return result;
  }

 private:
  PairRun run_pair(bool may_drop) {
    PairRun result;
    std::vector<int> trials;
    bool anchor = rng_.chance(0.5);
    for (int position = 0; position < 2 * rule_.blocks; ++position) {
      if (position % 2 == 0)
        trials = draw_trials(workload_, rule_, calls_, rng_);  // the kernel before goes on
      else
        anchor = !anchor;
      const std::vector<int> own(trials.begin(),
                                 anchor ? trials.begin() + anchor_block_calls_ : trials.end());
      const BlockOutcome outcome = run_block(anchor ? anchor_ : candidate_, workload_, own, rule_, rng_);
      result.finding = judge_block(outcome, workload_, own);
      if (!result.finding.passed()) {
        if (anchor)
          result.finding = {Outcome::kInfra, "anchor_failed",
                            result.finding.reason + ": " + result.finding.detail};
        return result;
      }
      if (may_drop) result.pair.take_clock(outcome.clock_mhz);
      if (!outcome.disturbed || !may_drop)
        (anchor ? result.pair.anchor : result.pair.candidate).take(outcome, own.size());
    }
    return result;
  }

  void take(const Pair& pair, RatioEstimate& estimate) {
    if (pair.disturbed() || pair.clock_moved()) {
      ++estimate.dropped;
      return;
    }
    pairs_.push_back(pair);
    expect(pair.anchor.wall_ns, pair.candidate.wall_ns);
  }

  void expect(double anchor_ns, double candidate_ns) {
    if (anchor_ns > kMuchSlower * candidate_ns)
      anchor_block_calls_ = std::min(calls_, calls_for(rule_.block_ns, anchor_ns, workload_, rule_));
  }

  /// What the device's clock may be believed to within; none if it does not count.
  ///
  /// That clock is not disturbed by what keeps threads waiting, but a candidate may forge what its process
  /// tells of it, and what it takes from the device's time it adds to the delay until the broker sees the
  /// end. So a block of the candidate is believed a delay as long as the longest of the anchor, which the gym
  /// trusts, and its delays must on average be no longer than the anchor's.
  std::optional<double> longest_delay_ns() const {
    std::vector<double> anchor_ns, candidate_ns, device_ns;
    for (const Pair& pair : pairs_) {
      if (pair.anchor.device_ns <= 0 || pair.candidate.device_ns <= 0) return std::nullopt;
      anchor_ns.push_back(pair.anchor.delay_ns);
      candidate_ns.push_back(pair.candidate.delay_ns);
      device_ns.push_back(pair.candidate.device_ns * pair.candidate.calls);
    }
    const double longest_ns = *std::ranges::max_element(anchor_ns) + kForgedNs;
    for (double& delay_ns : candidate_ns) delay_ns = std::min(delay_ns, longest_ns);
    const double noise_ns =
        std::hypot(stddev(anchor_ns), stddev(candidate_ns)) / std::sqrt(static_cast<double>(pairs_.size()));
    const double allowed_ns =
        mean(anchor_ns) + std::max(noise_ns, kForgedNs + kForgedShare * median(device_ns));
    return mean(candidate_ns) <= allowed_ns ? std::optional(longest_ns) : std::nullopt;
  }

  void examine(RatioEstimate& estimate) {
    const std::optional<double> longest_ns = longest_delay_ns();
    anchor_calls_.clear();
    candidate_calls_.clear();
    estimate.samples.clear();
    for (const auto& [anchor, candidate, slowest, fastest] : pairs_) {
      anchor_calls_.push_back(longest_ns ? anchor.device_ns : anchor.wall_ns);
      candidate_calls_.push_back(
          longest_ns ? std::max(candidate.device_ns, candidate.wall_ns - *longest_ns / candidate.calls)
                     : candidate.wall_ns);
      estimate.samples.push_back(std::log(anchor_calls_.back() / candidate_calls_.back()));
    }
    estimate.log_ratio =
        signed_rank_interval(estimate.samples, rule_.alpha / static_cast<double>(rule_.looks.size()));
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
  int calls_ = 1;               ///< of a candidate's block
  int anchor_block_calls_ = 1;  ///< of an anchor's: fewer, once it is known to be much slower
  std::vector<Pair> pairs_;
  std::vector<double> anchor_calls_, candidate_calls_;
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
  rule.looks = {8, 14, 24};
  rule.half_width = 0.015;
  return rule;
}

TimingRule final_rule() {
  TimingRule rule;
  rule.block_ns = 5e5;
  rule.looks = {8, 12, 18, 26};
  rule.half_width = 0.015;
  return rule;
}

PairOutcome time_pair(Session& anchor, Session& candidate, const Workload& workload, const TimingRule& rule,
                      const Seed& secret) {
  return PairTimer(anchor, candidate, workload, rule, secret).run();
}

QuickTime time_quickly(Session& session, const Workload& workload, const TimingRule& rule,
                       const Seed& secret) {
  Rng rng(secret);
  QuickTime result;
  int calls = 1;
  for (int round = 0; round < 3; ++round) {
    const std::vector<int> trials = draw_trials(workload, rule, calls, rng);
    const BlockOutcome outcome = run_block(session, workload, trials, rule, rng);
    result.finding = judge_block(outcome, workload, trials);
    if (!result.finding.passed()) return result;
    const double call_ns = outcome.wall_ns / calls;
    result.call_ns = round == 0 ? call_ns : std::min(result.call_ns, call_ns);
    calls = calls_for(3e5, result.call_ns, workload, rule);
  }
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

MemoisationCheck measure_memoisation(Session& session, const Workload& workload, const Ring& ring,
                                     const TimingRule& rule, const Seed& secret) {
  MemoisationCheck result;
  if (ring.unseen.empty()) return result;
  Rng rng(secret);
  const std::size_t calls = std::min(ring.unseen.size(), ring.usual.size());
  const std::vector<int> usual(ring.usual.begin(), ring.usual.begin() + static_cast<std::ptrdiff_t>(calls));
  const std::vector<int> unseen(ring.unseen.begin(),
                                ring.unseen.begin() + static_cast<std::ptrdiff_t>(calls));
  double usual_ns = 0, unseen_ns = 0;
  // The first block only makes sure that the usual ones have been met; the slower of the others counts.
  for (const auto& [trials, call_ns] :
       {std::pair(&usual, static_cast<double*>(nullptr)), std::pair(&usual, &usual_ns),
        std::pair(&unseen, &unseen_ns), std::pair(&usual, &usual_ns)}) {
    const BlockOutcome outcome = run_block(session, workload, *trials, rule, rng);
    result.finding = judge_block(outcome, workload, *trials);
    if (!result.finding.passed()) return result;
    if (call_ns) *call_ns = std::max(*call_ns, outcome.wall_ns / static_cast<double>(calls));
  }
  result.unseen_over_usual = unseen_ns / usual_ns;
  return result;
}

}  // namespace lathe
