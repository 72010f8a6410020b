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

/// One block's outputs of all trials of a workload, in the keeper's device memory and in host
/// memory, where they arrive when the block has ended.
class OutputBank {
 public:
  /// Bank number `index` of the workload that the keeper knows as `held`. Both outlive it.
  static Result<std::unique_ptr<OutputBank>> make(const Workload& workload, const Layout& layout,
                                                  KeeperClient& keeper, std::uint64_t held,
                                                  std::uint32_t index);

  std::uint32_t index() const { return index_; }
  std::size_t host_bytes() const { return host_.size(); }
  /// A block has the bank from reset() to the comparison.
  [[nodiscard]] std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }

  /// Fills the outputs of all trials, so that nothing outlives a block, and renews the canaries.
  Status reset(std::uint8_t poison) const;
  /// Fetches what `request` compares of its trials' outputs. An output around which was written, in
  /// any trial; -1 if none.
  Result<int> collect(const BlockRequest& request) const;
  /// Copies secret lines of the trials' outputs as they are at this moment, kernels or not.
  Status sample(KeeperClient::Reserved& reserved, const BlockRequest& request) const;
  /// Whether a line that sample() copied differs from what collect() fetched later.
  bool changed_since_sample(const BlockRequest& request) const;
  /// Whether secret lines of other outputs than the request's hold the poison, as collected last.
  bool others_untouched(const BlockRequest& request) const;
  /// Passes handles of the inputs' and the bank's memory to a launcher, which may take any time to
  /// read them.
  Status share(const Channel& launcher) const;

  /// As collected last, where it was.
  std::span<const std::byte> output(int trial, int index) const;

 private:
  OutputBank(const Workload& workload, const Layout& layout, KeeperClient& keeper, std::uint64_t held,
             std::uint32_t index)
      : workload_(workload), layout_(layout), keeper_(keeper), held_(held), index_(index) {}
  std::vector<Piece> lines_of_trials(const BlockRequest& request) const;
  std::vector<Piece> lines_of_others(const BlockRequest& request) const;
  Piece draw_line(int trial, Rng& rng) const;
  const std::byte* collected(const Piece& piece) const;
  void add_pieces(const BlockRequest& request, int trial, std::size_t output,
                  std::vector<Piece>& pieces) const;

  const Workload& workload_;
  const Layout& layout_;
  KeeperClient& keeper_;
  const std::uint64_t held_;
  const std::uint32_t index_;
  Mapping host_;
  mutable std::mutex mutex_;
  mutable std::mutex handles_mutex_;
  mutable std::vector<UniqueFd> handles_;  ///< of its memory, fetched when the first launcher needs them
  mutable std::uint64_t handles_generation_ = 0;
};

}  // namespace lathe::cuda
