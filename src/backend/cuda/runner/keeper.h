#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "backend/cuda/runner/region_memory.h"
#include "backend/cuda/wire/keeper_kernels.h"
#include "backend/cuda/wire/protocol.h"
#include "sandbox/channel.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {

/// A bank's memory: outputs of all trials, on the device and where collect() writes them.
struct HeldBank {
  RegionMemory memory;
  Mapping host;
  DevicePointer host_address = 0;  ///< of `host` for kernels; 0 where memory may not be pinned
  const Driver* driver = nullptr;

  explicit HeldBank(const Driver& of) : driver(&of) {}
  HeldBank(const HeldBank&) = delete;
  HeldBank& operator=(const HeldBank&) = delete;
  ~HeldBank();
};

/// What a workload has on the device. Never changed: one with a further bank takes its place.
struct HeldWorkload {
  Layout layout;
  std::shared_ptr<const RegionMemory> inputs;
  std::map<std::uint32_t, std::shared_ptr<const HeldBank>> banks = {};
};

/// One stream's work for the banks of workloads, for one thread.
class OutputKeeper {
 public:
  static Result<OutputKeeper> make(const Driver& driver, Module kernels);

  /// Fills every output of every trial with `poison` (an inout one with its input) and renews the
  /// canaries.
  Status reset(const HeldWorkload& workload, const HeldBank& bank, std::uint8_t poison) const;
  /// Fetches pieces, and says which canaries were overwritten, as KeeperReply::numbers.
  Result<double> collect(const HeldWorkload& workload, const HeldBank& bank,
                         const std::vector<Piece>& pieces) const;
  Status sample(const HeldWorkload& workload, const HeldBank& bank, const std::vector<Piece>& lines) const;

 private:
  explicit OutputKeeper(const Driver& driver) : driver_(&driver) {}
  /// Later on the stream.
  Status run_jobs(Function kernel, const std::vector<MemoryJob>& jobs) const;

  const Driver* driver_;
  Stream stream_ = nullptr;
  Function run_jobs_ = nullptr, check_jobs_ = nullptr;
  DeviceMemory jobs_;
  DeviceMemory found_;  ///< one word: what check_jobs found
};

/// Owns the device memory of every workload in a context where no candidate runs: fills outputs
/// before a block and fetches them afterwards. Launchers map its memory, inputs for reading only.
class Keeper {
 public:
  static Result<std::unique_ptr<Keeper>> open(const Driver& driver);

  /// Serves the channel, and in threads of their own those that come through it, until the broker
  /// closes it or the device is lost.
  void serve(const Channel& channel);
  const DeviceFacts& facts() const { return facts_; }

 private:
  /// What serving one channel takes.
  struct Line {
    const Channel& channel;
    std::unique_ptr<const OutputKeeper> outputs = nullptr;  ///< made when first needed
  };

  explicit Keeper(const Driver& driver) : driver_(&driver) {}
  Status handle(Line& line, const KeeperRequest& request, std::vector<UniqueFd> fds, KeeperReply& reply);
  Status serve_another(std::vector<UniqueFd> fds);
  Status load_kernels(const std::vector<UniqueFd>& fds);
  Status create(const KeeperRequest& request, const std::vector<UniqueFd>& fds);
  Status add_bank(const KeeperRequest& request, const std::vector<UniqueFd>& fds);
  Status serve_outputs(Line& line, const KeeperRequest& request, KeeperReply& reply);
  Result<std::shared_ptr<const HeldWorkload>> find(std::uint64_t workload) const;

  const Driver* driver_;
  Context context_ = nullptr;
  DeviceFacts facts_;
  Module kernels_ = nullptr;
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<const HeldWorkload>> workloads_;
};

}  // namespace lathe::cuda
