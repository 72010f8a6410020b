#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/host/jail/desk.h"
#include "backend/host/program.h"
#include "backend/host_gpu.h"
#include "backend/object_cache.h"
#include "base/cancel.h"
#include "sandbox/jail.h"
#include "sandbox/memfd.h"
#include "sandbox/process.h"

namespace lathe::host {

/// What a candidate's build gave: libraries, by the requests that they answer.
struct Extensions {
  std::vector<std::string> requests, objects;
  std::string compiled;  ///< what it compiled itself, packed by its own process
};

/// How many processes were started, for what, and how long each took until it had answered or was
/// ready. Thread-safe.
class ProcessTally {
 public:
  void add(const std::string& purpose, double seconds);
  std::map<std::string, DeviceUsage::Stage> stages() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, DeviceUsage::Stage> stages_;
};

/// How zygotes are started.
struct ZygoteOptions {
  std::string runner_program, python, script, library;
  std::string cache_folder;          ///< where each gets a work folder of its own
  std::vector<std::string> folders;  ///< that Python reads besides those of the system
  JailKind jail = JailKind::kFull;
  bool gpu = false;                          ///< its children compute on a GPU
  std::vector<std::string> environment;      ///< "NAME=value": CUDA's variables are passed on
  std::string owner = {};                    ///< in the tally
  std::shared_ptr<ProcessTally> tally = {};  ///< null: nobody counts
};

/// Of lathe-host-runner.
std::vector<std::string> runner_arguments(const ZygoteOptions& options, const std::string& work_folder);

/// What a zygote observed of a child. The child cannot write it; the text apart, which is the
/// child's own.
struct ChildReply {
  std::int32_t wait_status = 0;
  std::uint32_t ending = kRunning;
  bool confined = false;      ///< else no candidate code has run in it
  std::int64_t switches = 0;  ///< involuntary ones
  std::int64_t cpu_ns = 0;

  bool exited_with(ExitCode code) const;
};
Result<ChildReply> decode_child_reply(std::string_view bytes);

/// A jailed Python process that has imported torch and runs no candidate code: it forks a child for
/// each piece of work. Not thread-safe.
class Zygote {
 public:
  /// Seconds, until torch is imported.
  static Result<std::unique_ptr<Zygote>> start(const ZygoteOptions& options);

  /// Memory of a program. The broker maps all of it.
  struct Rooms {
    UniqueFd control_fd, window_fd, desk_fd, outputs_fd;
    Mapping control, window, desk, outputs;
  };
  struct Sizes {
    std::size_t window = 0, outputs = 0, text = 64 << 10;
  };
  static Result<Rooms> make_rooms(const Sizes& sizes);

  /// Gives it a program: `document` is JSON (device/host/worker.py reads it), of `sections`.
  /// `windows` are null where the program needs none.
  Status load(const std::string& document, const Rooms& rooms, std::span<const Section> sections,
              const Extensions& extensions, const DeviceWindows* windows = nullptr);

  /// Makes what a building child asks for; invalid where it must end for its request.
  using Compiler = std::function<UniqueFd(const std::string& request)>;
  /// Forks a child that does `step` ('s' build, 'i' import for what it asks for, 'd' describe, 't'
  /// find the signature; 'D' and 'T' the same with the GPU) and ends. What it waits for `compile`
  /// does not count as its time.
  Result<ChildReply> run_step(char step, const Rooms& rooms, double timeout_seconds,
                              const CancelToken& cancel, const Compiler& compile = {});
  /// Forks a child that answers with the module's outputs whenever `go` in the control page rises.
  /// The reply is to be received.
  Status begin_answers(double seconds) const;
  /// Forks a child that runs calls as the desk says, at first of a section. The reply is to be
  /// received.
  Status begin_block(std::uint16_t section, std::uint32_t calls, std::uint8_t poison,
                     double ready_seconds) const;
  Result<ChildReply> end_block(int timeout_ms) const;
  bool reply_waits() const;
  /// A child has been told to end, and nobody wants its reply: settle() takes it.
  void leave_child() { has_left_child_ = true; }
  bool must_wait() const { return has_left_child_ && !reply_waits(); }
  /// Ready for the next program: the child that was left has ended, and memory is let go of.
  Status settle();
  /// A process for `purpose` has got ready.
  void count(const std::string& purpose, std::int64_t begin_ns) const;
  /// A part of a block has taken this long.
  void count_seconds(const std::string& purpose, double seconds) const;

 private:
  Zygote(WorkFolder work, HelperProcess process, const ZygoteOptions& options)
      : work_(std::move(work)), process_(std::move(process)), owner_(options.owner), tally_(options.tally) {}
  Status tell(const std::string& verb, const std::vector<int>& fds);

  WorkFolder work_;  ///< its own: no candidate sees what another brought
  HelperProcess process_;
  const std::string owner_;
  const std::shared_ptr<ProcessTally> tally_;
  bool has_left_child_ = false, is_loaded_ = false;
};

/// What the child wrote, at most 8 KiB, as text that can be printed.
std::string text_of(const Zygote::Rooms& rooms);
/// The same with all its bytes, at most `most`.
std::string raw_text_of(const Zygote::Rooms& rooms, std::size_t most);

/// Zygotes that wait for work. Thread-safe.
class ZygotePool {
 public:
  explicit ZygotePool(ZygoteOptions options) : options_(std::move(options)) {}

  /// A zygote for as long as it is held; one that broke is not given back.
  class Loan {
   public:
    Loan(ZygotePool& pool, std::unique_ptr<Zygote> zygote) : pool_(&pool), zygote_(std::move(zygote)) {}
    Loan(Loan&&) = default;
    Loan& operator=(Loan&&) = default;
    ~Loan() {
      if (zygote_) pool_->give_back(std::move(zygote_));
    }
    Zygote* operator->() const { return zygote_.get(); }
    Zygote& operator*() const { return *zygote_; }
    /// Ends the process.
    void drop() { zygote_.reset(); }
    bool held() const { return zygote_ != nullptr; }

   private:
    ZygotePool* pool_;
    std::unique_ptr<Zygote> zygote_;
  };
  Result<Loan> take();

 private:
  std::unique_ptr<Zygote> take_idle();
  void give_back(std::unique_ptr<Zygote> zygote);

  const ZygoteOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Zygote>> idle_;
};

}  // namespace lathe::host
