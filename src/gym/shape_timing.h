#pragma once

#include <cassert>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gym/build_stage.h"
#include "gym/pair_timer.h"

namespace lathe {

/// A verified kernel that others are timed against at one shape, and how fast it is compared with
/// the naive build. Each timing opens it afresh: what one process's allocations do to it would bias
/// every candidate alike.
struct Anchor {
  std::string name;
  Candidate candidate;
  Artifact artifact;
  bool peer = true;            ///< one of the gym's own: speedups are reported over it
  Interval log_vs_naive = {};  ///< log(t_naive / t_anchor)
  std::string tied_to = {};    ///< what it was timed against; empty for the first, the naive build
  Interval log_vs_tied = {};   ///< log(t_tied_to / t_anchor)
  /// As DeviceInfo::process_spread, of this kernel; measured for stand-ins where blocks vary.
  double process_spread = 0;
  double call_ns = 0;
  double spread = 0;
  int pairs = 0;
  int rounds = 0;  ///< in fresh processes, of which `pairs` are the sum
};

/// Where sessions of a baseline run: the gym's own leave nothing behind that another could use.
inline Runner runner_of_baseline(bool peer) { return {peer ? Runner::kShared : 0}; }

/// What timing one candidate at one shape gave.
struct ShapeTiming {
  Finding finding;
  Timing timing;
  std::vector<Speedup> speedups;  ///< one a baseline
  double unseen_over_usual = 0;   ///< time on inputs new to its process over that on others; 0: unmeasured
  bool wants_stand_ins = false;   ///< nothing was timed: make them, and screen again
};

struct TiedAnchor {
  Finding finding;
  Anchor anchor;
};

/// What a candidate gains over every peer at a shape that it does not cover, where the best of them
/// runs instead. `floor_ns`: DevicePeaks::floor_ns() there.
std::vector<Speedup> fallback_speedups(std::span<const Anchor> peers, const std::string& best_peer,
                                       const std::string& shape, double floor_ns);

/// Where a shape is timed: a device, the reference and the shape's data, which outlive the timer.
struct TimingSite {
  Backend& backend;
  const Reference& reference;
  const BenchShape& shape;
  double block_timeout_seconds;
};

/// Times at one scored shape for one evaluation. A candidate is timed against one of the peers,
/// which are tied to the first of them, the naive build; its speedup over every peer is composed
/// from the two intervals.
class ShapeTimer {
 public:
  /// `secret` draws trials and checked places; no two timers have the same. `stand_ins` are other
  /// anchors, for screens where every peer is far slower; nullopt: they are yet to be made, which
  /// is done while no candidate has a process.
  ShapeTimer(const TimingSite& site, std::span<const Anchor> peers, const Seed& secret,
             std::optional<std::span<const Anchor>> stand_ins = std::span<const Anchor>())
      : site_(site), peers_(peers), secret_(secret), stand_ins_(stand_ins) {
    assert(!site.shape.timing_rms.empty());
  }

  /// Measures a verified kernel as a further anchor: a peer against the naive build, which comes
  /// first and meets a twin of itself, and a stand-in against the fastest peer, which is most like
  /// it.
  TiedAnchor tie(const std::string& name, bool peer, const Candidate& candidate, const Artifact& artifact);
  /// In `session` if it has been opened at the shape's timing data before.
  ShapeTiming screen(const Candidate& candidate, const Artifact& artifact,
                     std::unique_ptr<Session> session = nullptr);
  /// Fresh inputs, allocations and processes several times over; the interval predicts a further
  /// one.
  ShapeTiming final(const Candidate& candidate, const Artifact& artifact);

 private:
  /// Where and how one pair of kernels meets.
  struct Round {
    const std::shared_ptr<const Workload>& workload;
    const RmsLimits& rms;
    TimingRule rule;
    Seed secret;
  };
  struct Built {
    const Candidate& candidate;
    const Artifact& artifact;
  };
  struct FairOutcome {
    PairOutcome pair;
    /// The least that any process found, significant only if all agree; none where processes
    /// forget.
    std::optional<Excess> excess = {};
  };
  struct FinalRounds {
    Finding finding;  ///< the first failure: then there are no estimates
    std::vector<RatioEstimate> estimates;
  };

  Finding open(const Built& built, std::shared_ptr<const Workload> workload, Runner runner,
               std::unique_ptr<Session>& session) const;
  TimingRule on_this_device(TimingRule rule) const;
  /// A candidate's open session against one of the anchor that is opened for it, on the same
  /// workload.
  PairOutcome time_against(const Anchor& anchor, Session& session, const Round& round) const;
  const Anchor& fastest_peer() const;
  void end_early(const QuickTime& quick, ShapeTiming& result) const;
  /// A stand-in that is nearest to the time of a candidate that outruns the peers. Else the fastest
  /// peer where the times are within reach of each other, for then the claim over it is measured
  /// directly; else the nearest peer.
  const Anchor& choose_anchor(double call_ns, bool peers_only) const;
  /// By so much that none of them is an anchor to compare with.
  bool outruns_peers(double call_ns) const;
  /// What differs between processes of an anchor, from pairs of them that run the same kernel.
  Result<double> spread_between_processes(const Anchor& anchor, TimingRule rule) const;
  Result<RmsLimits> naive_rms(const std::shared_ptr<const Workload>& workload) const;
  /// Holds trials back from a round's blocks where the device's processes remember, others for each
  /// process.
  void hold_back(Round& round, int process = 0) const;
  /// Times an open session. Where processes remember, asks fresh ones until one finds the kernel no
  /// slower on inputs that are new to it.
  FairOutcome time_fairly(const Anchor& anchor, Session& session, const Round& round,
                          const Built& built) const;
  /// What a kernel gains by inputs that its process has met does not count, and a large gain is
  /// TAMPERED.
  static Finding take_off(const Excess& excess, RatioEstimate& estimate, ShapeTiming& result);
  Seed round_secret(int number) const { return secret_.derive("final", static_cast<std::uint64_t>(number)); }
  /// Enough for blocks of calls that take so long.
  Result<std::shared_ptr<const Workload>> make_round_data(double call_ns, int number) const;
  /// Of all rounds, where the device is steady: there a round that makes its own data waits for the
  /// blocks of others, and they for it. Empty where that would take too much memory; what could not
  /// be made is null.
  std::vector<std::shared_ptr<const Workload>> make_data_ahead(double call_ns) const;
  /// Round `number` of a final, on a workload of its own and in a process that it shares with the
  /// same rounds at other shapes.
  PairOutcome time_round(const Built& built, const Anchor& anchor, const TimingRule& rule, int number,
                         const std::shared_ptr<const Workload>& workload) const;
  /// Side by side where the device has lanes; the numbers begin at `first`. Data that lie ahead are
  /// taken.
  FinalRounds time_rounds(const Built& built, const Anchor& anchor, const TimingRule& rule, int first,
                          int count, std::span<std::shared_ptr<const Workload>> ahead) const;
  /// A call's time on the shape's screening workload, which chooses a final's anchor.
  QuickTime time_alone(const Built& built, const Seed& secret) const;
  /// TAMPERED below the time that the mandatory bytes need, SUSPECT below that of the mandatory
  /// arithmetic.
  Finding check_roof(double call_ns) const;
  /// Fills in the timing, the speedups and what the roofs say of them.
  void compose(const Anchor& anchor, const RatioEstimate& estimate, bool final_depth,
               ShapeTiming& result) const;

  TimingSite site_;
  std::span<const Anchor> peers_;
  Seed secret_;
  std::optional<std::span<const Anchor>> stand_ins_;
};

}  // namespace lathe
