#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/wire/protocol.h"
#include "sandbox/process.h"
#include "task/expr.h"

namespace lathe::cuda {

/// NVRTC's name for the device: "sm_90a".
std::string arch_of(const DeviceFacts& facts);
/// What plan expressions may use.
Dims facts_of(const DeviceFacts& facts);

/// The broker's side of the process that owns workloads' memory. Thread-safe: requests follow each other.
/// When the process or its device is lost, another one gets the same workloads: only what was under way
/// fails.
class KeeperClient {
 public:
  /// Starts the process and makes its context (0.2 s). kUnavailable where there is no usable GPU.
  static Result<std::unique_ptr<KeeperClient>> start(const std::string& runner_program);

  const DeviceFacts& facts() const { return facts_; }
  /// How often the process was replaced: what was shared before is not the workloads' memory any more.
  std::uint64_t generation() const { return generation_; }

  /// Uploads the inputs that `inputs` holds. Its name for later requests.
  Result<std::uint64_t> create(const Layout& layout, UniqueFd inputs, UniqueFd outputs);
  void destroy(std::uint64_t workload);
  Status reset(std::uint64_t workload, std::uint8_t poison);
  /// Fetches parts of outputs into the memory that create() was given. The output of a trial (trial by trial)
  /// whose surroundings were written to, -1 if none.
  Result<int> collect(std::uint64_t workload, std::vector<Piece> pieces);
  /// Copies lines of outputs at once, behind all outputs in that memory.
  Status sample(std::uint64_t workload, std::vector<Piece> lines);
  /// Handles of all the workload's memory, good until the process is replaced: for each trial its inputs,
  /// then its outputs.
  Result<std::vector<UniqueFd>> handles(std::uint64_t workload, const Layout& layout);
  /// Others' requests wait while the lock is held; its holder's do not.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> reserve() { return std::unique_lock(mutex_); }
  /// `cubin` holds kKeeperKernels; needed before anything else.
  Status load_kernels(const std::string& cubin);
  /// kUnavailable: no room on the device.
  Status multiply(const Product& product, const UniqueFd& matrices);
  /// See runner/measure.h.
  Result<std::vector<double>> measure();

 private:
  /// What it takes to make a workload again.
  struct Held {
    Layout layout;
    UniqueFd inputs, outputs;
  };

  KeeperClient(std::string program, HelperProcess process)
      : program_(std::move(program)), process_(std::move(process)) {}
  Status receive_facts();
  Result<KeeperReply> ask(const KeeperRequest& request, const std::vector<int>& fds, int timeout_ms);
  Result<KeeperReply> exchange(const KeeperRequest& request, const std::vector<int>& fds,
                               int timeout_ms) const;
  Result<std::vector<UniqueFd>> receive_handles(std::uint64_t workload, const Layout& layout) const;
  Status restart();

  std::string program_;
  std::recursive_mutex mutex_;
  HelperProcess process_;
  DeviceFacts facts_;
  UniqueFd kernels_;
  std::map<std::uint64_t, Held> held_;
  std::uint64_t next_workload_ = 1;
  std::atomic<std::uint64_t> generation_ = 0;
};

}  // namespace lathe::cuda
