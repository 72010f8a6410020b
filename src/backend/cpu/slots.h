#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/protocol.h"
#include "sandbox/memfd.h"

namespace lathe {

/// A workload in shared memory: every trial's inputs and outputs at fixed places that the broker and the
/// runners map. Runners get the inputs read-only, so a candidate cannot change what others see.
///
/// Each buffer is 64-byte aligned and ends (to within those 64 bytes) at a page that faults. The other bytes
/// around outputs are canaries.
class CpuWorkload final : public Workload {
 public:
  static Result<std::shared_ptr<const CpuWorkload>> make(Workload workload);

  const protocol::Region& inputs() const { return inputs_; }
  const protocol::Region& outputs() const { return outputs_; }
  const UniqueFd& read_only_inputs() const { return inputs_read_only_; }
  const UniqueFd& output_memory() const { return outputs_fd_; }

  /// Fills a trial's outputs with `poison` (an inout output with its input instead) and renews the canaries.
  void reset_outputs(int trial, std::uint8_t poison) const;
  std::span<const std::byte> output(int trial, int index) const;
  /// The first output whose surroundings were written to; -1 if none.
  int broken_canary(int trial) const;

 private:
  std::byte* output_at(int trial, int index) const;
  /// The strips before and after each output, two an output.
  std::vector<std::span<std::byte>> gaps(int trial) const;

  protocol::Region inputs_, outputs_;
  UniqueFd inputs_fd_, inputs_read_only_, outputs_fd_;
  Mapping input_map_, output_map_;
  std::vector<int> inout_source_;  ///< one an output: the input it starts from, or -1
};

}  // namespace lathe
