#pragma once

#include <atomic>
#include <functional>
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

struct KeeperOptions {
  std::string program;
  int channels = 1;  ///< requests that are served at once
  int reply_timeout_ms = 10'000;
  std::vector<std::string> environment = {};  ///< of the process
};

/// The broker's side of the process that owns workloads' memory. Thread-safe: requests of several
/// threads are served side by side. When the process or its device is lost, another one gets the
/// same workloads: only what was under way fails.
class KeeperClient {
  struct Connection;

 public:
  /// A channel to the process that is kept free for one thread's next request.
  class Reserved {
   public:
    Reserved(std::shared_ptr<Connection> connection);
    ~Reserved();
    Reserved(const Reserved&) = delete;
    Reserved& operator=(const Reserved&) = delete;

   private:
    friend class KeeperClient;
    std::shared_ptr<Connection> connection_;
    std::unique_ptr<Channel> channel_;
  };

  /// Starts the process and makes its context (0.2 s). kUnavailable where there is no usable GPU.
  static Result<std::unique_ptr<KeeperClient>> start(const KeeperOptions& options);

  const DeviceFacts& facts() const { return facts_; }
  /// How often the process was replaced: what was shared before is not the workloads' memory any
  /// more.
  std::uint64_t generation() const { return generation_; }

  /// Uploads the inputs that `inputs` holds. Its name for later requests.
  Result<std::uint64_t> create(const Layout& layout, UniqueFd inputs);
  void destroy(std::uint64_t workload);
  /// Memory for one block's outputs of all trials; `outputs` is where collect() and sample() write.
  /// Banks of a workload are numbered from 0.
  Status add_bank(std::uint64_t workload, std::uint32_t bank, UniqueFd outputs);
  Status reset(std::uint64_t workload, std::uint32_t bank, std::uint8_t poison);
  /// Fetches parts of outputs into the bank's memory. The output of a trial (trial by trial) whose
  /// surroundings were written to, -1 if none.
  Result<int> collect(std::uint64_t workload, std::uint32_t bank, std::vector<Piece> pieces);
  [[nodiscard]] std::unique_ptr<Reserved> reserve();
  /// Copies lines of outputs at once, behind all outputs in the bank's memory.
  Status sample(Reserved& reserved, std::uint64_t workload, std::uint32_t bank,
                std::vector<Piece> lines) const;
  /// Handles of all the memory of a workload with one bank, good until the process is replaced: in
  /// the order of kExport.
  Result<std::vector<UniqueFd>> handles(std::uint64_t workload, std::uint32_t bank, const Layout& layout);
  /// `cubin` holds kKeeperKernels; needed before anything else.
  Status load_kernels(const std::string& cubin);
  /// kUnavailable: no room on the device.
  Status multiply(const Product& product, const UniqueFd& matrices);
  /// See runner/measure.h.
  Result<std::vector<double>> measure();

 private:
  struct Answer {
    KeeperReply reply;
    std::vector<UniqueFd> handles;  ///< that came before it
  };

  /// What it takes to make a workload again.
  struct Held {
    Layout layout;
    UniqueFd inputs;
    std::map<std::uint32_t, UniqueFd> banks = {};
  };

  explicit KeeperClient(KeeperOptions options) : options_(std::move(options)) {}
  std::shared_ptr<Connection> connection() const;
  Result<std::shared_ptr<Connection>> connect();
  /// `remember`: done once the process that answered is sure to be the current one, beside no
  /// replacement.
  Result<Answer> ask(const KeeperRequest& request, const std::vector<int>& fds, int timeout_ms,
                     const std::function<void()>& remember = {});
  Status replace(const std::shared_ptr<Connection>& lost);

  const KeeperOptions options_;
  DeviceFacts facts_;
  mutable std::mutex mutex_;
  std::shared_ptr<Connection> connection_;
  UniqueFd kernels_;
  std::map<std::uint64_t, Held> held_;
  std::atomic<std::uint64_t> next_workload_ = 1;
  std::atomic<std::uint64_t> generation_ = 0;
};

}  // namespace lathe::cuda
