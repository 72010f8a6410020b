#pragma once

#include <memory>
#include <optional>

#include "backend/cuda/protocol.h"
#include "backend/cuda/workload.h"
#include "sandbox/process.h"

namespace lathe::cuda {

/// Where sessions get launchers. Thread-safe.
class LauncherPool {
 public:
  virtual ~LauncherPool() = default;
  /// One that has run nothing but what `owner` names; for kFresh, nothing at all.
  virtual Result<HelperProcess> take(const std::string& owner, Runner runner) = 0;
  /// Of a session that ends with its context whole.
  virtual void give_back(const std::string& owner, HelperProcess launcher) = 0;
};

struct SessionOptions {
  LauncherPool* launchers = nullptr;
  std::string owner;  ///< the candidate
  Runner runner = Runner::kOwn;
  double empty_block_ns = 0;  ///< what a block without calls costs
};

/// A candidate in a launcher of its own. A launcher whose context is lost is replaced when the next block
/// comes.
class CudaSession final : public Session {
 public:
  /// Errors with kInvalid are the candidate's fault.
  static Result<std::unique_ptr<CudaSession>> open(Load load, std::string cubin,
                                                   std::shared_ptr<const CudaWorkload> workload,
                                                   const SessionOptions& options);
  ~CudaSession() override;
  BlockOutcome run(const BlockRequest& request) override;

 private:
  struct Timing {
    double wall_ns = 0;
    bool ready = false, done = false;
  };

  CudaSession(Load load, std::string cubin, std::shared_ptr<const CudaWorkload> workload,
              const SessionOptions& options)
      : load_(std::move(load)), cubin_(std::move(cubin)), workload_(std::move(workload)), options_(options) {}
  Control& control() const { return *reinterpret_cast<Control*>(control_.data()); }
  Status start();
  bool answered() const;  ///< the launcher has something to say, or is gone
  bool wait_for(const std::atomic<std::uint32_t>& flag, std::int64_t deadline_ns,
                const CancelToken& cancel) const;
  Timing time_block(const BlockRequest& request) const;
  BlockOutcome judge(const BlockRequest& request, const Timing& timing);
  void check_outputs(const BlockRequest& request, BlockOutcome& outcome) const;

  Load load_;
  std::string cubin_;
  std::shared_ptr<const CudaWorkload> workload_;
  SessionOptions options_;
  std::optional<HelperProcess> launcher_;
  UniqueFd control_fd_;
  Mapping control_;
};

}  // namespace lathe::cuda
