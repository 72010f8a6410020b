#pragma once

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

/// A process that runs one candidate, and what it has loaded.
struct LoadedLauncher {
  HelperProcess process;
  Digest loaded = {};  ///< of the load, the cubin and the workload; zeros: nothing
  Mapping control = {};
};

/// Where sessions get launchers. Thread-safe.
class LauncherPool {
 public:
  virtual ~LauncherPool() = default;
  /// One that has run nothing but what `owner` names, rather one with `load` in it; for kFresh, one that has
  /// run nothing at all.
  virtual Result<LoadedLauncher> take(const std::string& owner, Runner runner, const Digest& load) = 0;
  /// Of a session that ends with its context whole.
  virtual void give_back(const std::string& owner, LoadedLauncher launcher) = 0;
};

/// Spare launchers, whose contexts are made and warmed while others work, and those that candidates have
/// used.
class SpareLaunchers final : public LauncherPool {
 public:
  SpareLaunchers(std::string program, std::vector<std::string> args,
                 std::shared_ptr<const KeeperClient> keeper);
  /// The cubin of kScrubKernel; before the first take().
  Status set_scrubber(const std::string& cubin);

  Result<LoadedLauncher> take(const std::string& owner, Runner runner, const Digest& load) override;
  void give_back(const std::string& owner, LoadedLauncher launcher) override;

 private:
  /// Ends the longest unused but for `most`, without waiting for the driver to free what they had.
  void end_used(std::size_t most);
  Status fill_up(std::size_t spares);

  std::string program_;
  std::vector<std::string> args_;
  std::shared_ptr<const KeeperClient> keeper_;
  UniqueFd scrubber_;
  std::mutex mutex_;
  std::uint64_t generation_ = 0;
  std::deque<HelperProcess> spares_;
  std::deque<std::pair<std::string, LoadedLauncher>> used_;  ///< with who used them, oldest first
  std::vector<HelperProcess> ending_;  ///< killed; a driver takes its time to free what they had
};

}  // namespace lathe::cuda
