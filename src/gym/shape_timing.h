#pragma once

#include <memory>
#include <vector>

#include "gym/build_stage.h"
#include "gym/pair_timer.h"

namespace lathe {

/// Fresh allocations and processes in which a baseline is tied to the naive build.
inline constexpr int kTieRounds = 4;

/// A verified kernel that others are timed against, and how fast it is compared with the naive build. Each
/// timing opens it afresh: what one process's allocations do to it would bias every candidate alike.
struct Anchor {
  std::string name;
  Candidate candidate;
  Artifact artifact;
  bool peer = true;            ///< speedups are reported over it
  Interval log_vs_naive = {};  ///< log(t_naive / t_anchor)
  double call_ns = 0;
  double spread = 0;
  int pairs = 0;
};

/// What timing one candidate at one shape gave.
struct ShapeTiming {
  Finding finding;
  Timing timing;
  std::vector<Speedup> speedups;  ///< one a baseline
  double unseen_over_usual = 0;   ///< the longest of its sessions (Freshness); 0 where none was measured
};

/// All timing at one scored shape. Baselines are tied to the naive build once; a candidate is timed against
/// one anchor, and its speedup over every baseline is composed from the two intervals.
class ShapeTimer {
 public:
  ShapeTimer(Backend& backend, const Reference& reference, const BenchShape& shape, const Seed& secret,
             double timeout_seconds)
      : backend_(backend),
        reference_(reference),
        shape_(shape),
        secret_(secret),
        timeout_seconds_(timeout_seconds) {}

  /// The first call brings the naive build, timed against a twin of itself. Later ones are timed against it.
  Finding add_anchor(const std::string& name, bool peer, const Candidate& candidate,
                     const Artifact& artifact);
  ShapeTiming screen(const Candidate& candidate, const Artifact& artifact);
  /// Fresh inputs, allocations and processes several times over; the interval predicts a further one.
  ShapeTiming final(const Candidate& candidate, const Artifact& artifact);
  const std::vector<Anchor>& anchors() const { return anchors_; }

 private:
  Finding open(const Candidate& candidate, const Artifact& artifact, std::shared_ptr<const Workload> workload,
               Runner runner, std::unique_ptr<Session>& session) const;
  /// Where and how one pair of kernels meets.
  struct Round {
    const std::shared_ptr<const Workload>& workload;
    const RmsLimits& rms;
    TimingRule rule;
    Runner runner;
    Seed secret;
  };
  TimingRule on_this_device(TimingRule rule) const;
  /// A candidate's open session against one of the anchor that is opened for it, on the same workload.
  PairOutcome time_against(const Anchor& anchor, Session& session, const Round& round) const;
  const Anchor& choose_anchor(double call_ns, bool peers_only) const;
  /// Empty if the machine fails: the bounds are checked all the same.
  RmsLimits naive_rms(const std::shared_ptr<const Workload>& workload) const;
  /// Holds trials back from a round's blocks where the device's processes remember, others for each process.
  Ring take_ring(Round& round, int process = 0) const;
  struct Built {
    const Candidate& candidate;
    const Artifact& artifact;
  };
  /// TAMPERED where the session, and fresh ones too, are much slower on inputs that they have not met: the
  /// kernel knows the others again. The last thing to do with a session.
  Freshness check_memory(Session& session, const Ring& ring, const Round& round, const Built& built) const;
  /// TAMPERED below the time that the mandatory bytes need, SUSPECT below that of the mandatory arithmetic.
  Finding check_roof(double call_ns) const;
  /// Fills in the timing, the speedups and what the roofs say of them.
  void compose(const Anchor& anchor, const RatioEstimate& estimate, bool final_depth,
               ShapeTiming& result) const;

  Backend& backend_;
  const Reference& reference_;
  const BenchShape& shape_;
  Seed secret_;
  double timeout_seconds_;
  std::uint64_t rounds_ = 0;
  std::vector<Anchor> anchors_;
};

}  // namespace lathe
