#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/protocol.h"
#include "sandbox/memfd.h"

namespace lathe {

/// A workload in memory that the broker and the runners share: every trial's inputs and outputs
/// have fixed offsets. Runners map the inputs read-only, so a candidate cannot change what others
/// see.
///
/// Each buffer is 64-byte aligned and ends, up to that alignment, at a guard page. Canaries fill
/// the other bytes around outputs.
class CpuWorkload final : public Workload {
 public:
  static Result<std::shared_ptr<const CpuWorkload>> make(Workload workload);

  const protocol::Region& inputs() const { return inputs_; }
  const protocol::Region& outputs() const { return outputs_; }
  const UniqueFd& read_only_inputs() const { return inputs_read_only_; }
  const UniqueFd& output_memory() const { return outputs_fd_; }

  MemoryUse memory() const override;

  /// Fills a trial's outputs with `poison` (an inout output with its input instead) and renews the
  /// canaries.
  void reset_outputs(int trial, std::uint8_t poison) const;
  std::span<const std::byte> output(int trial, int index) const;
  struct Overrun {
    int output = 0;
    bool before = false;  ///< its start; else past its end
    std::size_t distance_bytes = 0;
  };
  /// The overwritten canary that is nearest to the first output that has one.
  std::optional<Overrun> overrun(int trial) const;

 private:
  std::byte* output_at(int trial, int index) const;
  /// The canary strips before and after each output: two per output.
  std::vector<std::span<std::byte>> gaps(int trial) const;

  protocol::Region inputs_, outputs_;
  UniqueFd inputs_fd_, inputs_read_only_, outputs_fd_;
  Mapping input_map_, output_map_;
  std::vector<int> inout_source_;  ///< per output: the input that initialises it, or -1
};

}  // namespace lathe
