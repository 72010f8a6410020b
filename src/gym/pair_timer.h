#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gym/verify.h"

namespace lathe {

/// How long to look before saying how fast a kernel is.
struct TimingRule {
  double block_ns = 1e6;        ///< a block has as many calls as fill this
  std::vector<int> looks = {};  ///< pairs after which the interval is examined; the last is the end
  double half_width = 0.025;    ///< of the log ratio: stop once reached
  double alpha = 0.05;          ///< spent equally on the looks; half of it is the rate of false wins
  double timeout_seconds = 20;
  int blocks = 2;                 ///< of each kernel in a pair, the better of which counts
  double call_ns = 0;             ///< of the candidate, where that is known already
  double anchor_ns = 0;           ///< of the anchor, likewise
  std::vector<int> trials = {};   ///< of the workload, that blocks draw from; empty: all
  bool deals = false;             ///< no trial again before all others: see DeviceInfo::deals_trials
  std::vector<int> unseen = {};   ///< others, that the candidate's process meets once, at the end
  bool trusts_candidate = false;  ///< it is a baseline too: see BlockOutcome::own_ns
  /// Of the workload: the candidate's timed outputs must be as precise as its verified ones. May be
  /// null.
  const RmsLimits* rms = nullptr;
};
TimingRule screen_rule();
TimingRule tie_rule();    ///< one of the rounds that tie a baseline to the naive build
TimingRule final_rule();  ///< one of a final's rounds

/// t_anchor / t_candidate, in logarithms.
struct RatioEstimate {
  Interval log_ratio;
  std::vector<double> samples;  ///< one a pair
  /// The same on inputs that were new to the candidate's process, one a pair of undisturbed blocks.
  std::vector<double> unseen;
  double anchor_ns = 0;  ///< a call, median
  double candidate_ns = 0;
  double spread = 0;  ///< relative median absolute deviation of the candidate's calls
  int dropped = 0;    ///< blocks and pairs that the machine disturbed
  bool converged = false;
};

/// All of a workload's but its guest, in order.
std::vector<int> trials_of_timed_blocks(const Workload& workload);

/// Times two loaded kernels against each other on the same trials: ABBA (or AB) blocks, a secret
/// order of trials, the candidate's outputs checked after every block. A block's process is fresh
/// or has met none of its trials. About once in four pairs, before any of its blocks, the candidate
/// runs one more that has a guest and does not count: a kernel may know the number of its block
/// (the ids of processes count them) and, in a process that lives on, how long its anchor ran
/// before. Blocks on unseen inputs are the last, and as long as the others: nothing tells a kernel
/// beforehand which of them it is in. A failed block of the candidate ends it with a Finding; one
/// of the anchor is the machine's fault.
struct PairOutcome {
  Finding finding;
  RatioEstimate estimate;
};
PairOutcome time_pair(Session& anchor, Session& candidate, const Workload& workload, const TimingRule& rule,
                      const Seed& secret);

/// One call's time from a few blocks that the machine leaves alone, for choosing an anchor and a
/// block's length.
struct QuickTime {
  Finding finding;
  double call_ns = 0;
  bool quiet = false;  ///< else the machine disturbed all blocks: a call may take much less
};
/// Of `rule`, only its trials, timeout and limits count. One block has a guest of the workload
/// among its calls and looks like a timed one otherwise: a kernel that keeps to what is right for
/// all inputs only until it knows that it is timed is wrong there.
QuickTime time_quickly(Session& session, const Workload& workload, const TimingRule& rule,
                       const Seed& secret);

/// The trials that a process's blocks may draw again and again, and some that it meets once, at its
/// end.
struct Ring {
  std::vector<int> usual, unseen;
};
/// All are usual unless `hold_back`, or where the workload has only one.
Ring draw_ring(const Workload& workload, bool hold_back, const Seed& secret);

/// By how much, in logarithms, a kernel is slower on inputs that are new to its process: one that
/// keeps answers where nothing is cleared is slow there.
struct Excess {
  double log = 0;  ///< as measured
  double low = 0;  ///< beyond what chance and a plausible noise of blocks explain; significant above 0
};
/// Of one process; none if it met no unseen inputs undisturbed.
std::optional<Excess> excess_of(const RatioEstimate& estimate);
/// Of several processes, at least four.
Excess excess_of(std::span<const double> processes);

}  // namespace lathe
