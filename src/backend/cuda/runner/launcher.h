#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/runner/region_memory.h"
#include "backend/cuda/runner/scrubber.h"
#include "backend/cuda/runner/tensor_maps.h"
#include "backend/cuda/wire/profile_frames.h"
#include "backend/cuda/wire/protocol.h"
#include "backend/vendor_library.h"
#include "sandbox/channel.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {

/// A call's first step never begins before the call before it has ended.
std::vector<LaunchAttribute> attributes_of(const Step& step, bool first_of_call);

/// What a launcher's process has for all loads of its candidate.
struct LaunchDevice {
  const Driver* driver = nullptr;
  Stream stream = nullptr;
  Event begin = nullptr, end = nullptr;
  bool overlaps_steps = false;  ///< sm_90 and later: the others run programmatic steps after each other
  std::optional<VendorLibrary> vendor;  ///< absent: no library steps
  DeviceMemory flush;  ///< twice the L2: filled before a block, so that it starts with cold caches
  Scrubber scrubber;
  std::string cudnn_path;  ///< empty: absent

  static Result<LaunchDevice> open(const std::string& vendor_library, const std::string& cudnn_library = {});
  /// Takes kScrubKernel, and has the driver do once, before anybody waits, what it is slow to do at
  /// first.
  Status warm(const UniqueFd& scrub_cubin);
};

/// One candidate, loaded for one workload, in a context of its own. It knows addresses, not
/// answers, and a kernel can read and write all of this process's device memory: what it reports is
/// believed only against the candidate.
class Launcher {
 public:
  /// `fds`: the control page, the cubin. Takes the workload's memory from the channel. Errors
  /// with kInvalid are the candidate's fault and have a reason.
  static Result<Launcher> load(const LaunchDevice& device, Load load, const std::vector<UniqueFd>& fds,
                               const Channel& channel);
  Launcher(Launcher&& other) noexcept;
  ~Launcher();

  /// False when the broker is gone or the context is lost.
  bool serve_block(const Channel& channel, std::string_view frame);
  /// The same for kCount and kLoop.
  bool serve_profile(const Channel& channel, const Frame& frame) const;

 private:
  Launcher(const LaunchDevice& device, Load load)
      : device_(&device), driver_(device.driver), load_(std::move(load)) {}
  Status take_memory(const Channel& channel);
  Status load_module();
  Status prepare_nodes();
  Status encode_maps();
  Status set_up_kernels();
  Status check_parameters(const Step& step, Function function) const;
  void* pass(const Arg& arg, std::uint32_t trial, std::uint64_t& value) const;
  std::uint64_t argument(const Arg& arg, std::uint32_t trial) const;
  DevicePointer scratch_address(std::size_t index) const;

  Status prepare_memory(std::uint8_t poison, const std::vector<std::uint32_t>& trials) const;
  Status touch(const std::vector<std::uint32_t>& trials) const;
  Status record(const Block& block, Graph& graph) const;
  Status record_calls(std::uint32_t trial) const;
  Status run(const Block& block, BlockReply& reply);
  Result<bool> counters_are_dirty() const;

  std::map<std::string, double> facts_of_kernels() const;
  Result<double> time_warm(const ProfileJob& job) const;
  Status count(const ProfileJob& job, const std::vector<UniqueFd>& fds, ProfileAnswer& answer) const;
  Status loop(const ProfileJob& job, ProfileAnswer& answer) const;

  const LaunchDevice* device_;
  const Driver* driver_;
  Load load_;
  Mapping control_, image_;
  Module module_ = nullptr;
  std::map<std::string, Function> functions_;
  int local_bytes_ = 0;                    ///< of a thread, in the kernel that takes most
  std::vector<lathe_vendor_call*> nodes_;  ///< one a step; null for launches
  RegionMemory inputs_, outputs_;
  std::vector<DeviceMemory> scratch_;
  std::vector<EncodedMap> maps_;  ///< trial by trial
};

/// Whether this process, which has a context, may count what kernels do.
ProfileAnswer probe_counters(const Driver& driver);

}  // namespace lathe::cuda
