#pragma once

#include <algorithm>
#include <atomic>
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
  bool serves_on = false;                 ///< a process serves several blocks and shapes
  std::int64_t spin_ns = 0;               ///< how long who waits in a timed block looks out before it sleeps
  bool watched = false;                   ///< on a GPU: processes say whose kernels have computed
  /// Is told when a timed block begins and when it has ended.
  std::shared_ptr<std::atomic<std::int64_t>> last_timed_ns = {};
};

std::string encode(const Extensions& extensions);
Result<Extensions> decode_extensions(std::string_view bytes);

/// Counters of `calls` calls from what a watched process has said (device/host/activity.py):
/// nanoseconds and numbers of its own kernels, of libraries' and of unknown ones.
Result<std::map<std::string, double>> read_activity(const std::string& said, double calls);

/// One candidate at one shape or several, in forks of a zygote that has run no candidate. In the
/// host's memory each block has a process of its own. On a GPU, where a process takes a fifth of a
/// second to make its context, it serves further ones: timed blocks to the end, verified ones as
/// long as their inputs are new to it, also at other shapes. The gym sees to it that what it
/// remembers is of no use (docs/host.md).
///
/// Before its first call the process imports the module, makes its entry and warms up on inputs
/// that are no secret. From then on it is stopped, and runs for one call at a time: the broker
/// puts the call's inputs into the window, takes the time, has the process continued, and takes the
/// time again when the process, which has said that it is done, is stopped again with all its
/// threads. So nothing runs that the clock does not see. Its outputs are read from the stopped
/// process's memory.
///
/// A stopped process's work on a GPU runs on. There the clock starts before inputs come to the
/// device's window and ends after what the outputs' window holds has been copied out of reach, so
/// that work done before, between or behind these moments is late, wrong or timed.
class HostProcess {
 public:
  /// What all of a candidate's processes have in common.
  struct Program {
    ZygotePool& zygotes;
    Candidate candidate;
    Extensions extensions;  ///< of all its shapes
    std::vector<std::shared_ptr<const HostWorkload>> workloads;
    HostSessionOptions options;
  };
  static Result<std::unique_ptr<HostProcess>> open(std::shared_ptr<const Program> program);
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  bool lives() const { return alive_; }
  /// Starts a process for blocks like this one, which gets ready beside the caller's work. One that
  /// is held runs no candidate code before its first block.
  Status begin(std::size_t section, const BlockRequest& request, bool held = false);
  bool works() const { return zygote_.held(); }
  /// Whether the living process may serve the block too.
  bool may_go_on(std::size_t section, const BlockRequest& request) const;
  /// How the process ended; an Error if there is none, or its zygote is lost.
  Result<ChildReply> end();
  /// In the living process if that may go on, else in a new one.
  BlockOutcome run(std::size_t section, const BlockRequest& request);
  /// What the process has left for the broker to read, which could be anything.
  std::string said() const { return text_of(rooms_); }

 private:
  struct Calls {
    int ended = 0;
    double wall_ns = 0;
    bool late = false;  ///< somebody between the clock and the process waited for a processor
    bool timed_out = false;
    bool left_work = false;  ///< on the device, which runs on while the process is stopped
    /// Of all calls: staging their inputs, running them, copying their outputs.
    double stage_seconds = 0, run_seconds = 0, copy_seconds = 0;
    Status device = Ok{};  ///< of the windows, which no candidate can break
    bool got_ready = false;
  };
  struct Shape {
    Layout inputs, outputs;
    std::vector<bool> met;  ///< [trial], by the living process
  };

  HostProcess(ZygotePool::Loan zygote, std::shared_ptr<const Program> program)
      : zygote_(std::move(zygote)), program_(std::move(program)) {}

  const HostSessionOptions& options() const { return program_->options; }
  const HostWorkload& workload() const { return *program_->workloads[section_]; }
  const Shape& shape() const { return shapes_[section_]; }
  Desk& desk() const { return *reinterpret_cast<Desk*>(rooms_.desk.data()); }
  Control& control() const { return *reinterpret_cast<Control*>(rooms_.control.data()); }
  /// False once the child has ended, the deadline has passed or the block was cancelled.
  bool wait_for(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t deadline_ns,
                const CancelToken& cancel) const;
  void tell_to_end() const;
  Status provide(std::size_t section, const BlockRequest& request);
  /// Lets candidate code come to the process that is held.
  Status release();
  /// Has the living process get ready for another shape. False if it does not: it may be better off
  /// in a process that has met none.
  bool switch_to(std::size_t section, const BlockRequest& request);
  Calls run_calls(const BlockRequest& request);
  void run_calls(const BlockRequest& request, Calls& calls);
  /// Whether the device is free of what the process has begun, which would slow the next block of
  /// another one, and has memory for that.
  bool left_nothing_behind();
  /// Has one call run, and says what the clock says of it.
  bool run_call(const BlockRequest& request, std::uint32_t call, double& left_ns, Calls& calls);
  bool stage_inputs(const BlockRequest& request, std::size_t trial, Calls& calls);
  Status measure_windows();
  BlockOutcome judge(const BlockRequest& request, const Calls& calls, const ChildReply& reply) const;
  /// What a part of the request's block has taken.
  void count(const BlockRequest& request, const char* part, double seconds) const;
  std::string input_at(std::size_t offset) const;
  BlockOutcome describe_end(const BlockRequest& request, const Calls& calls, const ChildReply& reply) const;
  std::span<const std::byte> output(std::size_t call, std::size_t index) const;

  ZygotePool::Loan zygote_;
  const std::shared_ptr<const Program> program_;
  std::vector<Shape> shapes_;
  std::size_t stride_ = 0;  ///< of a call's outputs
  Zygote::Rooms rooms_;
  std::unique_ptr<DeviceWindows> windows_;
  double window_ns_ = 0;              ///< what copying this workload's windows adds to an empty call
  std::int64_t idle_measure_ns_ = 0;  ///< what measuring windows takes on an idle device
  double idle_free_bytes_ = 0;
  std::size_t section_ = 0;
  bool alive_ = false;            ///< the process, which is stopped between calls
  std::int64_t begun_ns_ = 0;     ///< when it was asked for
  bool held_ = false;             ///< it has run no candidate code
  bool timed_ = false;            ///< its blocks
  std::uint32_t calls_made_ = 0;  ///< by it
};

/// The processes of a program, begun together where there are several. Blocks of trials that one
/// has met go to another. Not thread-safe.
class HostHousehold {
 public:
  HostHousehold(std::shared_ptr<const HostProcess::Program> program, std::size_t most)
      : program_(std::move(program)), most_(most) {}
  BlockOutcome run(std::size_t section, const BlockRequest& request);
  /// Whose kernels compute, by a process of its own. On a GPU alone.
  CallProfile profile(std::size_t section, const ProfileRequest& request) const;
  /// Starts the process of the first timed block, short of candidate code.
  Status begin_held(std::size_t section);
  /// A process that lives is replaced by a fresh one for timed blocks, which gets ready meanwhile.
  /// Nothing if all are fresh.
  Status renew();
  const HostProcess::Program& program() const { return *program_; }
  /// Else another one is needed.
  bool works() const { return std::ranges::all_of(processes_, &HostProcess::works); }

 private:
  Result<HostProcess*> choose(std::size_t section, const BlockRequest& request);

  const std::shared_ptr<const HostProcess::Program> program_;
  const std::size_t most_;
  std::vector<std::unique_ptr<HostProcess>> processes_;
  bool fresh_ = true;
};

/// One candidate on one workload.
class HostSession final : public Session {
 public:
  HostSession(std::shared_ptr<HostHousehold> household, std::size_t section)
      : household_(std::move(household)), section_(section) {}
  BlockOutcome run(const BlockRequest& request) override { return household_->run(section_, request); }
  void get_ready() override { (void)household_->begin_held(section_); }
  CallProfile profile(const ProfileRequest& request) override {
    return household_->program().options.gpu ? household_->profile(section_, request)
                                             : Session::profile(request);
  }

 private:
  const std::shared_ptr<HostHousehold> household_;
  const std::size_t section_;
};

}  // namespace lathe::host
