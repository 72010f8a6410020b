#pragma once

#include <cstring>
#include <memory>
#include <optional>

#include "backend/cuda/broker/device_log.h"
#include "backend/cuda/broker/launcher_pool.h"
#include "backend/cuda/broker/usage_meter.h"
#include "backend/cuda/broker/workload.h"
#include "backend/cuda/wire/profile_frames.h"
#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {

struct SessionOptions {
  LauncherPool* launchers = nullptr;
  std::string candidate;
  Runner runner;
  double empty_block_ns = 0;  ///< what a block without calls costs
  UsageMeter* usage = nullptr;
  DeviceLane* lane = nullptr;
  DeviceLog* log = nullptr;       ///< takes a reading at every block's end; null where there is no NVML
  std::string_view kernels = {};  ///< the cubin of kKeeperKernels, for a profile
};

/// A candidate in a launcher of its own. A launcher whose context is lost is replaced when the next
/// block comes.
class CudaSession final : public Session {
 public:
  /// Errors with kInvalid are the candidate's fault.
  static Result<std::unique_ptr<CudaSession>> open(Load load, std::string cubin,
                                                   std::shared_ptr<const CudaWorkload> workload,
                                                   const SessionOptions& options);
  ~CudaSession() override;
  BlockOutcome run(const BlockRequest& request) override;
  CallProfile profile(const ProfileRequest& request) override;

 private:
  struct Timing {
    double wall_ns = 0;
    bool ready = false, done = false;
    bool expired = false;   ///< killed while it ran
    Status sampled = Ok{};  ///< of the outputs, at the moment of the end
  };

  CudaSession(Load load, std::string cubin, std::shared_ptr<const CudaWorkload> workload,
              const OutputBank& bank, const SessionOptions& options)
      : load_(std::move(load)),
        cubin_(std::move(cubin)),
        workload_(std::move(workload)),
        bank_(bank),
        options_(options) {}
  Control& control() const { return *reinterpret_cast<Control*>(launcher_->loads.back().control.data()); }
  void clear_control() const { std::memset(launcher_->loads.back().control.data(), 0, kPageBytes); }
  Status start();
  Status load_into_launcher(const std::string& payload, const Digest& own);
  Result<LoadedLauncher::Loaded> load(LoadedLauncher& launcher, const std::string& payload) const;
  LoadOrder make_room(LoadedLauncher& launcher, std::uint64_t device_bytes) const;
  bool answered() const;  ///< the launcher has something to say, or is gone
  /// `spin` where microseconds count; else the thread sleeps between looks.
  bool wait_for(const std::atomic<std::uint32_t>& flag, std::int64_t deadline_ns, const CancelToken& cancel,
                bool spin) const;
  BlockOutcome try_block(const BlockRequest& request);
  Result<bool> record(const BlockRequest& request);  ///< whether the launcher has done it
  Timing time_block(const BlockRequest& request);
  BlockOutcome judge(const BlockRequest& request, const Timing& timing);
  Status reset(const BlockRequest& request) const;
  Result<int> collect(const BlockRequest& request) const;  ///< as OutputBank::collect()
  double read_clock() const;                               ///< MHz; 0 where unknown
  void check_outputs(const BlockRequest& request, BlockOutcome& outcome) const;
  Status ask_profile(const ProfileJob& job, const std::vector<int>& fds);
  Status count(const ProfileRequest& request, CallProfile& profile);
  Status measure_energy(const ProfileRequest& request, CallProfile& profile);

  Load load_;
  std::string cubin_;
  std::shared_ptr<const CudaWorkload> workload_;
  const OutputBank& bank_;
  SessionOptions options_;
  std::optional<LoadedLauncher> launcher_;
  std::uint64_t generation_ = 0;  ///< of the workload's memory that the launcher has
};

}  // namespace lathe::cuda
