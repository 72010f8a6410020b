#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/cuda/protocol.h"
#include "backend/cuda/runner/device_memory.h"
#include "sandbox/channel.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {

/// One candidate in a context of its own. It knows addresses, not answers, and a kernel can read and write
/// all of this process's device memory: what it reports is believed only against the candidate.
class Launcher {
 public:
  /// `fds`: the control page, the cubin. Takes the workload's memory from the channel. Errors with kInvalid
  /// are the candidate's fault: "<reason>: <detail>".
  static Result<Launcher> load(const Driver& driver, Load load, const std::vector<UniqueFd>& fds,
                               const Channel& channel);

  /// Runs blocks until the broker closes the channel or the context is lost.
  void serve(const Channel& channel);

 private:
  Launcher(const Driver& driver, Load load) : driver_(&driver), load_(std::move(load)) {}
  Status take_memory(const Channel& channel);
  Status load_module();
  Status set_up_kernels() const;
  Status check_parameters(const Step& step, Function function) const;
  std::uint64_t argument(const Arg& arg, std::uint32_t trial) const;
  DevicePointer scratch_address(std::size_t index) const;

  Status prepare_memory(std::uint8_t poison) const;
  Status record(const Block& block, Graph& graph) const;
  Status record_calls(std::uint32_t trial) const;
  Status run(const Block& block, BlockReply& reply);
  Result<bool> counters_are_dirty() const;

  const Driver* driver_;
  Load load_;
  Mapping control_, image_;
  Module module_ = nullptr;
  Stream stream_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
  std::map<std::string, Function> functions_;
  std::vector<DeviceMemory> inputs_, outputs_;  ///< trial by trial
  std::vector<DeviceMemory> scratch_;
  DeviceMemory flush_;  ///< twice the L2: filled before a block, so that it starts with cold caches
};

}  // namespace lathe::cuda
