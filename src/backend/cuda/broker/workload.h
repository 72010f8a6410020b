#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/broker/keeper_client.h"
#include "backend/cuda/broker/output_bank.h"

namespace lathe::cuda {

/// A workload whose inputs lie in the keeper's device memory. Its outputs lie in banks, so that
/// several sessions may run blocks of it at once.
class CudaWorkload final : public Workload {
 public:
  /// Uploads as work on the lane. `banks`: as many as it makes at most.
  static Result<std::shared_ptr<const CudaWorkload>> make(Workload workload,
                                                          std::shared_ptr<KeeperClient> keeper,
                                                          DeviceLane& lane, int banks);
  ~CudaWorkload() override;

  const Layout& layout() const { return layout_; }
  std::uint64_t id() const { return held_; }  ///< no other workload of the keeper's ever has it
  std::uint64_t generation() const { return keeper_->generation(); }  ///< of the memory behind it
  KeeperClient& keeper() const { return *keeper_; }
  /// [trial][input]: the bits of inputs that kernels take by value.
  const std::vector<std::uint64_t>& scalars() const { return scalars_; }
  MemoryUse memory() const override;

  /// The bank of the calling thread's other sessions, which run no block meanwhile; else one that
  /// nobody uses, or a new one; once there are enough, the one with the fewest sessions. Each call
  /// is matched by one of leave_bank().
  Result<const OutputBank*> use_bank() const;
  void leave_bank(const OutputBank& bank) const;

 private:
  struct Slot {
    std::unique_ptr<OutputBank> bank;
    int sessions = 0;
    std::thread::id thread = {};  ///< that uses it
  };

  std::vector<std::uint64_t> input_bytes() const;
  std::vector<std::uint64_t> output_bytes() const;
  void read_scalars();
  Status upload(DeviceLane& lane);
  Result<Slot*> choose_bank() const;

  std::shared_ptr<KeeperClient> keeper_;
  std::uint64_t held_ = 0;
  Layout layout_;
  std::uint64_t input_memory_ = 0, bank_memory_ = 0;  ///< on the device
  std::vector<std::uint64_t> scalars_;
  std::size_t most_banks_ = 1;
  mutable std::mutex mutex_;
  mutable std::vector<Slot> banks_;
};

}  // namespace lathe::cuda
