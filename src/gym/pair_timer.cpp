#include "gym/pair_timer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lathe {
namespace {

constexpr double kCheckedElements = 1 << 17;  // of a timed block, at most
constexpr double kMuchSlower = 2;
constexpr double kClockMoves = 1.02;  // between blocks of a pair: kernels met different devices
constexpr int kMaxDroppedShare = 2;   // give up dropping once as many pairs were dropped as kept, times this

/// Trials in a secret order, `count` of them.
std::vector<int> draw_trials(const Workload& workload, int count, Rng& rng) {
  std::vector<int> trials(workload.trials.size());
  std::iota(trials.begin(), trials.end(), 0);
  rng.shuffle(trials);
  trials.resize(static_cast<std::size_t>(count));
  return trials;
}

int calls_for(double block_ns, double call_ns, const Workload& workload) {
  const double wanted = std::ceil(block_ns / std::max(call_ns, 1.0));
  return static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(workload.trials.size())));
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
  return session.run(request);
}

constexpr double kNever = std::numeric_limits<double>::infinity();

/// One ABBA pair: a call's time in the better of each kernel's two blocks, for what the machine does only
/// slows. kNever if it disturbed both.
struct Pair {
  double anchor_ns = kNever;
  double candidate_ns = kNever;
  double slowest_mhz = kNever;  ///< of the blocks that say how fast the device ran
  double fastest_mhz = 0;

  void take_clock(double mhz) {
    if (mhz <= 0) return;
    slowest_mhz = std::min(slowest_mhz, mhz);
    fastest_mhz = std::max(fastest_mhz, mhz);
  }
  bool disturbed() const { return anchor_ns == kNever || candidate_ns == kNever; }
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
    const QuickTime quick =
        time_quickly(candidate_, workload_, rule_.timeout_seconds, Seed::from_number(rng_.next()));
    if (!quick.finding.passed()) return result.finding = quick.finding, result;
    calls_ = anchor_block_calls_ = calls_for(rule_.block_ns, quick.call_ns, workload_);
    for (const int look : rule_.looks) {
      while (static_cast<int>(result.estimate.samples.size()) < look) {
        const bool may_drop =
            result.estimate.dropped < kMaxDroppedShare * static_cast<int>(result.estimate.samples.size() + 4);
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
    std::vector<int> trials = draw_trials(workload_, calls_, rng_);
    const bool anchor_first = rng_.chance(0.5);
    int position = 0;
    for (const bool anchor : {anchor_first, !anchor_first, !anchor_first, anchor_first}) {
      if (position++ == 2) trials = draw_trials(workload_, calls_, rng_);
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
      double& best_ns = anchor ? result.pair.anchor_ns : result.pair.candidate_ns;
      if (!outcome.disturbed || !may_drop)
        best_ns = std::min(best_ns, outcome.wall_ns / static_cast<double>(own.size()));
    }
    return result;
  }

  void take(const Pair& pair, RatioEstimate& estimate) {
    if (pair.disturbed() || pair.clock_moved()) {
      ++estimate.dropped;
      return;
    }
    estimate.samples.push_back(std::log(pair.anchor_ns / pair.candidate_ns));
    anchor_calls_.push_back(pair.anchor_ns);
    candidate_calls_.push_back(pair.candidate_ns);
    if (pair.anchor_ns > kMuchSlower * pair.candidate_ns)
      anchor_block_calls_ = std::min(calls_, calls_for(rule_.block_ns, pair.anchor_ns, workload_));
  }

  void examine(RatioEstimate& estimate) const {
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

QuickTime time_quickly(Session& session, const Workload& workload, double timeout_seconds,
                       const Seed& secret) {
  Rng rng(secret);
  TimingRule rule;
  rule.timeout_seconds = timeout_seconds;
  QuickTime result;
  int calls = 1;
  for (int round = 0; round < 3; ++round) {
    const std::vector<int> trials = draw_trials(workload, calls, rng);
    const BlockOutcome outcome = run_block(session, workload, trials, rule, rng);
    result.finding = judge_block(outcome, workload, trials);
    if (!result.finding.passed()) return result;
    const double call_ns = outcome.wall_ns / calls;
    if (round == 1) result.first_ns = call_ns;
    result.call_ns = round == 0 ? call_ns : std::min(result.call_ns, call_ns);
    calls = calls_for(3e5, result.call_ns, workload);
  }
  return result;
}

}  // namespace lathe
