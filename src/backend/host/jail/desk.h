#pragma once

#include <atomic>
#include <cstdint>

/// Memory that processes of the HOST tier share. No pointers, no classes: the library in the jail,
/// which depends on the C library alone, and the Python code there use it too.
namespace lathe::host {

/// Between the broker and a zygote, which runs no candidate code; a candidate's process has no
/// mapping of it. Calls count from 1. Each word is a futex.
struct Desk {
  static constexpr std::uint32_t kEnd = 0xffffffff;      ///< in `go`: kill the child
  static constexpr std::uint32_t kNowhere = 0xffffffff;  ///< in `slot`: the call has no outputs
  alignas(128) std::atomic<std::uint32_t> go;            ///< the calls that the broker has let run
  alignas(128)
      std::atomic<std::uint32_t> stopped;  ///< 1: the child is ready and stopped; n + 1: so after n calls
  alignas(128) std::atomic<std::uint32_t> taken;   ///< the calls whose end the broker has timed
  alignas(128) std::atomic<std::uint32_t> copied;  ///< the calls whose outputs are in the broker's memory
  alignas(128) std::atomic<std::uint32_t> ended;   ///< why nothing more comes: an Ending
  std::atomic<std::int64_t> run_ns;    ///< of the last call, by the zygote: tells if somebody was late
  std::atomic<std::uint32_t> section;  ///< of the program, that the next call is of
  std::atomic<std::uint32_t> slot;     ///< where its outputs go, in multiples of the stride
  std::atomic<std::int64_t> spin_ns;   ///< how long the zygote looks out for what comes before it sleeps
};

enum Ending : std::uint32_t {
  kRunning,
  kDied,         ///< the child ended by itself
  kKilled,       ///< on the broker's word
  kLate,         ///< it did not get ready in time
  kNotStopped,   ///< it ran on although it was told to stop
  kBadOutput,    ///< what it said of its outputs does not fit them
  kAllCallsRun,  ///< nothing went wrong
};

inline constexpr std::uint32_t kMostTensors = 64;

/// Between a zygote, the child that runs the candidate, and the broker. The child may write
/// anything into it: `done` is a hint to stop it, `outputs` says where to look, and the rest is for
/// messages.
struct Control {
  static constexpr std::uint32_t kEnd = 0xffffffff;  ///< in `go`, of a process with a task's module
  alignas(128) std::atomic<std::uint32_t> ready;
  alignas(128) std::atomic<std::uint32_t> go;
  alignas(128) std::atomic<std::uint32_t> done;
  std::atomic<std::uint32_t> section;  ///< that the next call is of; in another one it gets ready for that
  std::atomic<std::uint32_t> hold;     ///< not 0: no candidate code yet
  std::atomic<std::int64_t> switches_before;  ///< involuntary ones, before the child was ready
  std::atomic<std::uint64_t> fault_address;
  std::atomic<std::uint64_t> window_address;  ///< of the inputs
  std::atomic<std::uint32_t> output_count;
  struct Output {
    std::uint64_t address, bytes;
  };
  Output outputs[kMostTensors];
  std::atomic<std::uint32_t> text_bytes;  ///< of what follows this page
};
static_assert(sizeof(Control) <= 4096);
inline constexpr std::uint64_t kTextOffset = 4096;

/// Exit codes of a child. It can forge all of them, so none is worth more to it than another.
enum ExitCode {
  kExitBuilt = 10,      ///< build: the module is imported and its entry made
  kExitSetup = 11,      ///< the machine failed before any candidate code ran, if the zygote says so too
  kExitImport = 12,     ///< the module could not be imported
  kExitEntry = 13,      ///< it has no such entry, or that cannot be made
  kExitState = 14,      ///< its parameters are not the reference's
  kExitException = 15,  ///< a call raised
  kExitOutput = 16,     ///< a call returned no dense tensors of the task's types and shapes
  kExitExtension = 17,  ///< build: it wants the extension that the text describes
  kExitAnswered = 18,   ///< reference: the answer is in the memory
  kExitMemory = 19,     ///< the GPU's memory does not suffice: others may have taken it
  kExitFault = 100,     ///< plus the signal
};

}  // namespace lathe::host
