#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/host/program.h"
#include "backend/host/zygote.h"

namespace lathe::host {

/// A workload with what its task's module is made of.
struct HostWorkload final : Workload {
  std::shared_ptr<const Model> model;  ///< null for a task without a module
};

struct HostSessionOptions {
  int threads = 1;
  std::vector<int> timed_cpus, broker_cpus;
  double empty_call_ns = 0;  ///< what stopping and continuing a process takes at the least, a call
  HostGpu* gpu = nullptr;    ///< where tensors lie; null: in the host's memory
  DeviceWindows::Costs empty_costs = {};  ///< of windows of one element, a part of empty_call_ns
};

std::string encode(const Extensions& extensions);
Result<Extensions> decode_extensions(std::string_view bytes);

/// One candidate on one workload, in a fork of a zygote that has run no candidate. In the host's
/// memory each block has a process of its own. On a GPU, where a process takes a fifth of a second
/// to make its context, it serves further blocks as long as their inputs are new to it, so that
/// what it remembers is of no use, and until it has met the workload's guest.
///
/// Before its first call the process imports the module, makes its entry and warms up on inputs
/// that it draws itself. From then on it is stopped, and runs for one call at a time: the broker
/// puts the call's inputs into the window, takes the time, has the process continued, and takes the
/// time again when the process, which has said that it is done, is stopped again with all its
/// threads. So nothing runs that the clock does not see. Its outputs are read from the stopped
/// process's memory.
///
/// A stopped process's work on a GPU runs on. There the clock starts before inputs come to the
/// device's window and ends after what the outputs' window holds has been copied out of reach, so
/// that work done before, between or behind these moments is late, wrong or timed.
class HostSession final : public Session {
 public:
  static Result<std::unique_ptr<HostSession>> open(ZygotePool& zygotes, const Candidate& candidate,
                                                   const Extensions& extensions,
                                                   std::shared_ptr<const HostWorkload> workload,
                                                   const HostSessionOptions& options);
  BlockOutcome run(const BlockRequest& request) override;
  ~HostSession() override { (void)end_process(); }
  HostSession(const HostSession&) = delete;
  HostSession& operator=(const HostSession&) = delete;

 private:
  struct Calls {
    int ended = 0;
    double wall_ns = 0;
    bool late = false;  ///< somebody between the clock and the process waited for a processor
    bool timed_out = false;
    bool left_work = false;  ///< on the device, which runs on while the process is stopped
    Status device = Ok{};    ///< of the windows, which no candidate can break
    bool got_ready = false;
  };

  HostSession(ZygotePool::Loan zygote, std::shared_ptr<const HostWorkload> workload,
              HostSessionOptions options)
      : zygote_(std::move(zygote)), workload_(std::move(workload)), options_(std::move(options)) {}

  Desk& desk() const { return *reinterpret_cast<Desk*>(rooms_.desk.data()); }
  Control& control() const { return *reinterpret_cast<Control*>(rooms_.control.data()); }
  /// False once the child has ended, the deadline has passed or the block was cancelled.
  bool wait_for(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t deadline_ns,
                const CancelToken& cancel) const;
  /// Whether the present process may serve the block too.
  bool may_go_on(const BlockRequest& request) const;
  Status provide_process(const BlockRequest& request);
  Status begin_process(const BlockRequest& request);
  /// How it ended; an Error if there is none, or its zygote is lost.
  Result<ChildReply> end_process();
  Calls run_calls(const BlockRequest& request);
  void run_calls(const BlockRequest& request, Calls& calls);
  /// Whether the device is free of what the process has begun, which would slow the next block of
  /// another one, and has memory for that.
  bool left_nothing_behind();
  /// Has one call run, and says what the clock says of it.
  bool run_call(const BlockRequest& request, std::uint32_t call, double& left_ns, Calls& calls);
  bool stage_inputs(const Trial& trial, std::uint8_t poison, Calls& calls);
  Status measure_windows();
  BlockOutcome judge(const BlockRequest& request, const Calls& calls, const ChildReply& reply) const;
  std::string input_at(std::size_t offset) const;
  BlockOutcome describe_end(const BlockRequest& request, const Calls& calls, const ChildReply& reply) const;
  std::span<const std::byte> output(std::size_t call, std::size_t index) const;

  ZygotePool::Loan zygote_;
  std::shared_ptr<const HostWorkload> workload_;
  HostSessionOptions options_;
  Zygote::Rooms rooms_;
  std::unique_ptr<DeviceWindows> windows_;
  double window_ns_ = 0;              ///< what copying this workload's windows adds to an empty call
  std::int64_t idle_measure_ns_ = 0;  ///< what measuring windows takes on an idle device
  double idle_free_bytes_ = 0;
  Layout inputs_, outputs_;
  bool alive_ = false;            ///< the process, which is stopped between calls
  bool timed_ = false;            ///< its blocks
  std::uint8_t poison_ = 0;       ///< of its heap
  std::uint32_t calls_made_ = 0;  ///< by it
  std::vector<bool> met_;         ///< [trial], by it
};

}  // namespace lathe::host
