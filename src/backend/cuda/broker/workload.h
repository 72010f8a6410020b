#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/broker/keeper_client.h"
#include "base/random.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {

/// A workload whose inputs and outputs lie in the keeper's device memory; outputs come back into host memory
/// when a block has ended.
class CudaWorkload final : public Workload {
 public:
  /// Uploads as work on the lane.
  static Result<std::shared_ptr<const CudaWorkload>> make(Workload workload,
                                                          std::shared_ptr<KeeperClient> keeper,
                                                          DeviceLane& lane);
  ~CudaWorkload() override;

  const Layout& layout() const { return layout_; }
  std::uint64_t id() const { return held_; }  ///< no other workload of the keeper's ever has it
  std::uint64_t generation() const { return keeper_->generation(); }  ///< of the memory behind it
  /// [trial][input]: the bits of inputs that kernels take by value.
  const std::vector<std::uint64_t>& scalars() const { return scalars_; }

  /// Outputs, in device and host memory, are one block's at a time, from reset() to the comparison.
  [[nodiscard]] std::unique_lock<std::mutex> lock_outputs() const { return std::unique_lock(outputs_mutex_); }
  /// Keeps the keeper free for this thread.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> reserve() const { return keeper_->reserve(); }

  /// Fills the outputs of all trials, so that nothing outlives a block, and renews the canaries.
  Status reset(std::uint8_t poison) const;
  /// Fetches what `request` compares of its trials' outputs. An output around which was written, in any
  /// trial; -1 if none.
  Result<int> collect(const BlockRequest& request) const;
  /// Copies secret lines of the trials' outputs as they are at this moment, kernels or not.
  Status sample_outputs(const BlockRequest& request) const;
  /// Whether a line that sample_outputs() copied differs from what collect() fetched later.
  bool changed_since_sample(const BlockRequest& request) const;
  /// Whether secret lines of other outputs than the request's hold the poison, as collected last.
  bool others_untouched(const BlockRequest& request) const;
  /// Passes handles of all its memory to a launcher, which may take any time to read them.
  Status share(const Channel& launcher) const;
  std::int64_t host_bytes() const override;

  /// As collected last, where it was.
  std::span<const std::byte> output(int trial, int index) const;

 private:
  std::vector<std::uint64_t> input_bytes() const;
  std::vector<std::uint64_t> output_bytes() const;
  void read_scalars();
  std::vector<Piece> lines_of_trials(const BlockRequest& request) const;
  std::vector<Piece> lines_of_others(const BlockRequest& request) const;
  Piece draw_line(int trial, Rng& rng) const;
  const std::byte* collected(const Piece& piece) const;
  void add_pieces(const BlockRequest& request, int trial, std::size_t output,
                  std::vector<Piece>& pieces) const;
  Status upload(DeviceLane& lane);

  std::shared_ptr<KeeperClient> keeper_;
  std::uint64_t held_ = 0;
  Layout layout_;
  std::vector<std::uint64_t> scalars_;
  Mapping outputs_;
  mutable std::mutex outputs_mutex_;
  mutable std::mutex handles_mutex_;
  mutable std::vector<UniqueFd> handles_;  ///< of its memory, fetched when the first launcher needs them
  mutable std::uint64_t handles_generation_ = 0;
};

}  // namespace lathe::cuda
