#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/runner_frames.h"
#include "base/result.h"

/// Messages between the broker and a runner. The runner is trusted until it forks a child for a
/// block; nothing that such a child writes can raise a score.
namespace lathe::protocol {

/// Tensors of all trials lie in two shared memories, one for inputs (read-only in the runner) and
/// one for outputs; trial t's buffer b starts at t * stride + offset[b] and ends before guard[b].
struct Region {
  std::uint64_t total_bytes = 0;
  std::uint64_t stride = 0;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> guards;  ///< one per buffer: a page that must fault
};

enum class ArgKind : std::uint8_t {
  kInput,
  kOutput,
  kScratch,
  kInteger,
  kScalarF16,
  kScalarF32,
  kScalarF64,
  kScalarI8,
  kScalarI32,
  kScalarI64,
  kScalarBits8,  ///< a struct of a byte, or a byte without a sign
  kScalarBits16
};

struct Arg {
  ArgKind kind = ArgKind::kInteger;
  std::int64_t value = 0;  ///< an index, or the integer itself
};

/// The floating-point scalars of a kernel: as many as are passed in registers.
inline constexpr std::size_t kMaxReals = 8;
constexpr bool is_real(ArgKind kind) {
  return kind == ArgKind::kScalarF16 || kind == ArgKind::kScalarF32 || kind == ArgKind::kScalarF64;
}

struct Step {
  bool is_node = false;
  std::string kernel;  ///< or the node's JSON
  std::int64_t items = 0;
  std::vector<Arg> args;

  std::size_t reals() const;  ///< floating-point scalars among the arguments
};

/// Accompanied by file descriptors: control page, inputs, outputs, and the artefact unless every
/// step is a library node.
struct Load {
  std::int32_t threads = 1;
  std::vector<std::int32_t> cpus;  ///< to pin to, one per thread; empty: not pinned
  std::uint32_t trials = 0;
  Region inputs;
  Region outputs;
  std::vector<Scratch> scratch;
  std::vector<Step> steps;
};
std::string encode(const Load& load);
Result<Load> decode_load(std::string_view bytes);

/// What the runner observed of its child. The child cannot write it.
struct BlockReply {
  std::int32_t wait_status = 0;
  std::int64_t involuntary_switches = 0;  ///< over the child's lifetime
  std::int64_t cpu_ns = 0;
  bool no_process = false;  ///< the machine had none for it
};
std::string encode(const BlockReply& reply);
Result<BlockReply> decode_block_reply(std::string_view bytes);

inline constexpr std::string_view kKill = "kill";

enum class FaultPlace : std::uint32_t { kElsewhere, kInputs, kOutputs, kScratch };
/// What a fault looks like to the handler.
enum class FaultKind : std::uint32_t {
  kAccess,      ///< of memory that is not mapped, or read-only
  kJump,        ///< to such memory
  kStack,       ///< below the end of the stack
  kMisaligned,  ///< an instruction that demands alignment
  kBadAddress,  ///< not even the form of an address
  kTrap,        ///< an instruction whose purpose is to fault
  kInstruction  ///< one that this processor lacks
};
/// How a kernel ended its process itself.
enum class SelfEnd : std::uint32_t {
  kAssertion,
  kAbort,
  kTerminate,
  kPureVirtual,
  kOutOfRange,
  kEmptyFunction,
  kDelete
};
/// Exit codes of a block's child: 128 + signal after a fault, 16 + SelfEnd, or the machine failed
/// before the first call.
inline constexpr int kExitFault = 128;
inline constexpr int kExitSelfEnd = 16;
inline constexpr int kSelfEnds = 7;
inline constexpr int kExitBeforeCalls = 3;

/// The page shared by the broker and a block's child. The child may write anything into it, so to
/// the broker `done` is no more than a hint to sample the outputs.
struct Control {
  alignas(128) std::atomic<std::uint32_t> ready;
  std::atomic<std::int64_t> switches_before;  ///< involuntary ones, before the child was ready
  alignas(128) std::atomic<std::uint32_t> go;
  alignas(128) std::atomic<std::uint32_t> done;
  std::atomic<std::uint32_t> counter_dirty;
  std::atomic<std::uint32_t> library_error;
  // For messages only:
  std::atomic<std::uint32_t> fault_kind;   ///< a FaultKind
  std::atomic<std::uint32_t> fault_place;  ///< a FaultPlace
  std::atomic<std::uint32_t> fault_write;
  std::atomic<std::int64_t> fault_offset;  ///< from the region's start; elsewhere the address
  std::atomic<std::uint32_t> assertion_line;
};
static_assert(sizeof(Control) <= 4096);

}  // namespace lathe::protocol
