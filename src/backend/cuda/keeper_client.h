#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/protocol.h"
#include "sandbox/process.h"

namespace lathe::cuda {

/// The broker's side of the process that owns workloads' memory. Thread-safe: requests follow each other.
class KeeperClient {
 public:
  /// Starts the process and makes its context (0.2 s). kUnavailable where there is no usable GPU.
  static Result<std::unique_ptr<KeeperClient>> start(const std::string& runner_program);

  const DeviceFacts& facts() const { return facts_; }

  /// Uploads the inputs that `inputs` holds. Its name for later requests.
  Result<std::uint64_t> create(const Layout& layout, const UniqueFd& inputs, const UniqueFd& outputs);
  void destroy(std::uint64_t workload);
  Status reset(std::uint64_t workload, const std::vector<std::uint32_t>& trials, std::uint8_t poison);
  /// Fetches outputs, with what lies around them, into the memory that create() was given.
  Status collect(std::uint64_t workload, const std::vector<std::uint32_t>& trials);
  /// Passes handles of all the workload's memory on to a launcher.
  Status share(std::uint64_t workload, const Layout& layout, const Channel& launcher);
  /// See measure.h. `cubin` holds the kernels of peaks.h.
  Result<std::vector<double>> measure(const std::string& cubin);

 private:
  explicit KeeperClient(HelperProcess process) : process_(std::move(process)) {}
  Result<KeeperReply> ask(const KeeperRequest& request, const std::vector<int>& fds, int timeout_ms);

  std::mutex mutex_;
  HelperProcess process_;
  DeviceFacts facts_;
  std::uint64_t next_workload_ = 1;
};

}  // namespace lathe::cuda
