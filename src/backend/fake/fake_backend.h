#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "backend/backend.h"

namespace lathe {

/// What a scripted kernel does. Times are exact but for the noise; a session stands for one process
/// and allocation, so its share of the noise is the same in all its blocks.
struct FakeKernel {
  double call_ns = 1000;
  double block_noise = 0;             ///< standard deviation of a block's log time
  double session_noise = 0;           ///< the same for a session
  double unseen_factor = 1;           ///< relative duration on inputs new to the session
  bool only_first_remembers = false;  ///< of its sessions: to others all inputs are new
  bool disturbs_unseen = false;       ///< feigns preemption in blocks on such inputs
  double weather = 0;                 ///< added to a block's log time in every second run of 500 blocks
  double spike_chance = 0;            ///< of a preempted block, which takes three times as long
  bool reports_spikes = true;
  bool says_own_time = false;     ///< as if there had been no spike
  bool picks_its_blocks = false;  ///< feigns preemption in the slower half of them
  double slow_clock_chance = 0;   ///< of a block at half the clock rate, which it reports
  std::string build_fault = {};   ///< reason code of a failing build
  Outcome build_outcome = Outcome::kBuildFailed;
  bool build_infra = false;  ///< the build fails through the machine's fault
  std::string open_fault = {};
  bool open_infra = false;
  int good_blocks = 1 << 30;  ///< blocks of all its sessions before `fault` sets in
  int bad_blocks = 1 << 30;   ///< after which it is well again
  BlockOutcome fault = {};
  std::string wrong = {};      ///< if set: why every output fails its comparison
  std::string wrong_rms = {};  ///< if set: why outputs fail wherever limits of the RMS error are given
  std::map<std::string, double> counters = {};  ///< of a profile; empty: the device has none
  double delay_seconds = 0;                     ///< real duration of a block, for tests of cancellation
  bool wrong_when_mixed = false;                ///< and on no other inputs
  std::int64_t wrong_rows = 0;  ///< if positive: wrong at shapes whose first dim has this value
};

/// A backend without a device: a candidate behaves as scripted for its name. The folders above are
/// tested on it, so they cannot depend on a real device. Thread-safe.
class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(const Seed& seed) : FakeBackend(seed, nullptr) {}
  /// One that processes share which meet in the folder `locks`.
  FakeBackend(const Seed& seed, const std::string& locks) : FakeBackend(seed, &locks) {}

  void script(const std::string& candidate, FakeKernel kernel);
  FakeKernel kernel(const std::string& candidate) const;
  /// Drops the script and the count of its blocks.
  void forget(const std::string& candidate);
  /// Workloads that were prepared so far.
  std::int64_t prepared() const { return prepared_; }
  /// Blocks that ran so far.
  std::int64_t blocks() const;
  std::int64_t blocks_of(const std::string& candidate) const;

  void set_process_spread(double spread) { device_.process_spread = spread; }
  void set_steady() { device_.steady = true; }
  void set_fact(const std::string& name, std::int64_t value) { device_.facts[name] = value; }
  /// Memory of its own, of which each workload takes one byte.
  void set_memory(std::int64_t bytes) { device_.memory_bytes = bytes; }

  /// From now on there is no room for another process: whom none served before gets none.
  void set_full() { full_ = true; }

  /// The evaluations for which sessions of it were opened: Runner::evaluation.
  std::set<std::uint64_t> evaluations_of(const std::string& candidate) const;

  /// How often on_idle() was called.
  std::int64_t idles() const { return idles_; }

  const DeviceInfo& device() const override { return device_; }
  void on_idle(const Candidate&) override { ++idles_; }
  DeviceLane& lane() override { return lane_; }
  Result<DevicePeaks> peaks() override { return peaks_; }
  void set_peaks(const DevicePeaks& peaks) override { peaks_ = peaks; }
  using Backend::build;
  Result<BuildResult> build(const Candidate& candidate, const BoundTask& task,
                            const CancelToken& cancel) override;
  Result<std::shared_ptr<const Workload>> prepare(Workload workload) override;
  using Backend::open;
  Result<std::unique_ptr<Session>> open(const Candidate& candidate, const Artifact& artifact,
                                        std::shared_ptr<const Workload> workload, Runner runner) override;

 private:
  friend class FakeSession;
  FakeBackend(const Seed& seed, const std::string* locks);
  Seed next_seed();
  std::int64_t count_block(const std::string& candidate);
  std::int64_t count_session(const std::string& candidate);

  DeviceInfo device_;
  std::atomic<std::int64_t> idles_ = 0;
  std::atomic<std::int64_t> prepared_ = 0;
  const std::shared_ptr<std::atomic<std::int64_t>> held_bytes_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
  DeviceLane lane_;
  DevicePeaks peaks_;
  mutable std::mutex mutex_;
  Seed seed_;
  std::uint64_t seeds_ = 0;
  std::map<std::string, FakeKernel> kernels_;
  std::map<std::string, std::int64_t> blocks_, sessions_;
  std::map<std::string, std::set<std::uint64_t>> evaluations_;
  std::atomic<bool> full_{false};
};

}  // namespace lathe
