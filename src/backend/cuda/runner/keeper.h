#pragma once

#include <map>
#include <vector>

#include "backend/cuda/runner/region_memory.h"
#include "backend/cuda/wire/keeper_kernels.h"
#include "backend/cuda/wire/protocol.h"
#include "sandbox/channel.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {

/// Owns the device memory of every workload in a context where no candidate runs: fills outputs before a
/// block and fetches them afterwards. Launchers map its memory, inputs for reading only.
class Keeper {
 public:
  static Result<Keeper> open(const Driver& driver);

  /// Serves until the broker closes the channel or the device is lost.
  void serve(const Channel& channel);
  const DeviceFacts& facts() const { return facts_; }

 private:
  struct HeldWorkload {
    Layout layout;
    RegionMemory inputs, outputs;
    Mapping host_outputs;               ///< where collect() writes
    DevicePointer outputs_address = 0;  ///< the same for kernels; 0 where memory may not be pinned
  };

  explicit Keeper(const Driver& driver) : driver_(&driver) {}
  Status handle(const Channel& channel, Frame frame, KeeperReply& reply);
  Status load_kernels(const std::vector<UniqueFd>& fds);
  Status create(const KeeperRequest& request, const std::vector<UniqueFd>& fds);
  Status share(const Channel& channel, const HeldWorkload& workload) const;
  /// Fills every output of every trial with `poison` (an inout one with its input) and renews the canaries.
  Status reset(const HeldWorkload& workload, std::uint8_t poison) const;
  Status collect(const HeldWorkload& workload, const std::vector<Piece>& pieces) const;
  /// Jobs that check every output's surroundings.
  static std::vector<MemoryJob> canaries(const HeldWorkload& workload);
  /// As KeeperReply::numbers says it of kCollect.
  Result<double> broken_canary(const HeldWorkload& workload) const;
  Status run_jobs(Function kernel, const std::vector<MemoryJob>& jobs) const;
  Status sample(const HeldWorkload& workload, const std::vector<Piece>& lines) const;
  Result<DevicePointer> find(const HeldWorkload& workload, const Piece& piece) const;
  void drop(std::uint64_t workload);

  const Driver* driver_;
  DeviceFacts facts_;
  Stream stream_ = nullptr;
  Module kernels_ = nullptr;
  Function run_jobs_ = nullptr, check_jobs_ = nullptr;
  DeviceMemory job_memory_;
  DeviceMemory found_;  ///< one word: what check_jobs found
  std::map<std::uint64_t, HeldWorkload> workloads_;
};

}  // namespace lathe::cuda
