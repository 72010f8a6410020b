#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/broker/keeper_client.h"
#include "base/digest.h"
#include "sandbox/memfd.h"
#include "sandbox/process.h"

namespace lathe::cuda {

/// A process that runs one candidate or the gym's baselines, and what it has loaded.
struct LoadedLauncher {
  struct Loaded {
    std::uint32_t number = 0;
    Digest digest = {};  ///< of the load, the cubin and the workload
    std::uint64_t device_bytes = 0;
    Mapping control = {};
  };
  HelperProcess process;
  std::vector<Loaded> loads = {};  ///< the current one last, then the longest unused first
  std::uint32_t next_number = 0;

  bool has(const Digest& load) const {
    return std::ranges::find(loads, load, &Loaded::digest) != loads.end();
  }
};

/// A candidate and which of its processes, or all baselines, which share theirs.
struct LauncherOwner {
  std::string candidate;
  Runner runner;

  bool shared() const { return runner.process == Runner::kShared; }
  /// Whether a launcher of `other` may serve this one.
  bool accepts(const LauncherOwner& other) const {
    if (shared() || other.shared()) return shared() && other.shared();
    return runner.process != Runner::kFresh && runner.process == other.runner.process &&
           runner.evaluation == other.runner.evaluation && candidate == other.candidate;
  }
};

/// Where sessions get launchers. Thread-safe.
class LauncherPool {
 public:
  virtual ~LauncherPool() = default;
  /// One that has run nothing but what `owner` names, rather one with `load` in it.
  virtual Result<LoadedLauncher> take(const LauncherOwner& owner, const Digest& load) = 0;
  /// Of a session that ends with its context whole.
  virtual void give_back(const LauncherOwner& owner, LoadedLauncher launcher) = 0;
  /// Ends all that nobody uses, waits until their memory is free, and keeps half as many for a
  /// while.
  virtual void end_idle() = 0;
};

/// How many of something to keep on a device whose memory may have been full.
class Allowance {
 public:
  explicit Allowance(std::size_t most) : most_(most), now_(most) {}
  std::size_t now() const { return now_; }
  /// The memory was full.
  void halve() { now_ = std::max<std::size_t>(1, now_ / 2), calm_ = 0; }
  /// It was not, once more: after a while there may be others' room again.
  void grow_when_calm() {
    if (++calm_ < kCalm) return;
    now_ = std::min(most_, 2 * now_), calm_ = 0;
  }

 private:
  static constexpr int kCalm = 256;
  std::size_t most_, now_;
  int calm_ = 0;
};

/// How many processes to keep that candidates have used, on one of a host's `gpus`.
std::size_t launchers_worth_keeping(std::int64_t memory_bytes, std::size_t gpus);

/// Spare launchers, whose contexts are made and warmed while others work, and those that candidates
/// have used.
class SpareLaunchers final : public LauncherPool {
 public:
  SpareLaunchers(std::string program, std::vector<std::string> args, std::vector<std::string> environment,
                 std::shared_ptr<const KeeperClient> keeper);
  /// The cubin of kScrubKernel; before the first take().
  Status set_scrubber(const std::string& cubin);

  Result<LoadedLauncher> take(const LauncherOwner& owner, const Digest& load) override;
  void give_back(const LauncherOwner& owner, LoadedLauncher launcher) override;
  void end_idle() override;
  /// Ends what the candidate has given back, without waiting for the driver to free what it had.
  void end(const std::string& candidate);

 private:
  using Used = std::pair<LauncherOwner, LoadedLauncher>;  ///< with who used it

  std::deque<Used>::iterator find_used(const LauncherOwner& owner, const Digest& load);
  void begin_to_end(LoadedLauncher launcher);
  Status fill_up(std::size_t spares);

  std::string program_;
  std::vector<std::string> args_, environment_;
  std::shared_ptr<const KeeperClient> keeper_;
  UniqueFd scrubber_;
  std::mutex mutex_;
  Allowance spares_allowed_, used_allowed_;
  std::uint64_t generation_ = 0;
  std::deque<HelperProcess> spares_;
  std::deque<Used> used_;              ///< longest unused first
  std::vector<HelperProcess> ending_;  ///< killed; a driver takes its time to free what they had
};

}  // namespace lathe::cuda
