#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "train/reducer.h"

namespace lathe::train {

/// What connects the processes of one machine that train one model: a socket between the first and
/// each other. It closes with its process, however that ends, so nobody waits for one that is gone.
class Links {
 public:
  /// Of one process alone.
  Links() = default;
  /// The first's, to the others in the order of their ranks.
  explicit Links(std::vector<UniqueFd> others);
  /// Another's, to the first.
  Links(int rank, int size, UniqueFd first);

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Of this process: one for each other in the first, one in another.
  std::size_t count() const { return sockets_.size(); }

  /// Errors: kUnavailable where the process at the other end is gone.
  Status send(std::size_t link, std::span<const std::byte> bytes) const;
  Status receive(std::size_t link, std::span<std::byte> bytes) const;
  /// The first's bytes are everyone's.
  Status spread(std::span<std::byte> bytes) const;
  /// Whether a process at an other end is gone.
  bool broken() const;
  /// Until the first closes its end.
  void wait_for_end() const;

 private:
  int rank_ = 0, size_ = 1;
  std::vector<UniqueFd> sockets_;
};

/// Sums on the processor: the first adds in the order of ranks and sends the sum back. For a
/// processor, where a step takes far longer. (LibTorch's Gloo would do as well, but its package
/// comes without the headers of Gloo that its own need.)
class LinkReducer final : public Reducer {
 public:
  explicit LinkReducer(const Links& links) : links_(links) {}

  int rank() const override { return links_.rank(); }
  int size() const override { return links_.size(); }
  Status sum(std::span<at::Tensor> tensors) override;

 private:
  const Links& links_;
};

}  // namespace lathe::train
