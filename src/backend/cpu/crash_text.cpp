#include "backend/cpu/crash_text.h"

#include <fmt/format.h>
#include <signal.h>

#include <limits>
#include <string>
#include <string_view>

namespace lathe {
namespace {

constexpr std::int64_t kNullBytes = 4096;
constexpr const char* kStackText =
    "used more stack than there is: a recursion without end, or large local arrays and alloca(), for which "
    "the plan has [[scratch]]";

BlockOutcome crash(std::string_view reason, std::string detail) {
  return {BlockStatus::kCrash, std::string(reason), std::move(detail)};
}

const std::string& name_of(const TaskSpec& spec, bool inputs, std::size_t index) {
  return inputs ? spec.tensors[index].name : spec.outputs[index].name;
}

/// Tells whoever takes int32 indices for int64 ones.
std::string dtype_of(const TaskSpec& spec, bool inputs, std::size_t index) {
  return std::string(info(inputs ? spec.tensors[index].dtype : spec.outputs[index].dtype).name);
}

/// The buffer of the block that is nearest to an address.
struct Nearest {
  std::size_t index = 0;
  std::int64_t before = 0;   ///< bytes from the address to its start; else it is at or behind the start
  std::int64_t behind = -1;  ///< bytes from its end to the address; negative inside
  std::int64_t distance = std::numeric_limits<std::int64_t>::max();
};

Nearest nearest_to(std::int64_t at, const protocol::Region& region, std::span<const int> trials) {
  Nearest nearest;
  for (const int trial : trials)
    for (std::size_t i = 0; i < region.offsets.size(); ++i) {
      const auto begin =
          static_cast<std::int64_t>(static_cast<std::uint64_t>(trial) * region.stride + region.offsets[i]);
      const std::int64_t before = begin - at,
                         behind = at - begin - static_cast<std::int64_t>(region.sizes[i]);
      const std::int64_t distance = before > 0 ? before : behind + 1;
      if (distance < nearest.distance) nearest = {i, before, behind, distance};
    }
  return nearest;
}

BlockOutcome describe_place(const protocol::Control& control, bool inputs, const CpuWorkload& workload,
                            std::span<const int> trials) {
  const bool write = control.fault_write.load() != 0;
  const char* const verb = write ? "wrote" : "read";
  const protocol::Region& region = inputs ? workload.inputs() : workload.outputs();
  if (region.offsets.empty()) return crash("segfault", fmt::format("{} outside every buffer", verb));
  const Nearest nearest = nearest_to(control.fault_offset.load(), region, trials);
  const std::string& name = name_of(*workload.task.spec, inputs, nearest.index);
  const std::uint64_t size = region.sizes[nearest.index];
  const char* const reason = write ? "oob_write" : "oob_read";
  if (nearest.before > 0)
    return crash(reason, fmt::format("{} {} bytes before the start of '{}', which has {}", verb,
                                     nearest.before, name, size));
  if (nearest.behind >= 0)
    return crash(reason,
                 fmt::format("{} {} bytes past the end of '{}', which has {} of {}", verb, nearest.behind,
                             name, size, dtype_of(*workload.task.spec, inputs, nearest.index)));
  if (inputs && write)
    return crash("input_written",
                 fmt::format("wrote to the input '{}', which is read-only: change a copy in scratch, and "
                             "compare the order of the plan's args with that of the parameters",
                             name));
  return crash("segfault", fmt::format("could not have '{}' {}", name, write ? "written" : "read"));
}

BlockOutcome describe_access(const protocol::Control& control, const CpuWorkload& workload,
                             std::span<const int> trials) {
  using protocol::FaultPlace;
  const auto place = static_cast<FaultPlace>(control.fault_place.load());
  const bool write = control.fault_write.load() != 0;
  const char* const verb = write ? "wrote" : "read";
  if (place == FaultPlace::kInputs || place == FaultPlace::kOutputs)
    return describe_place(control, place == FaultPlace::kInputs, workload, trials);
  if (place == FaultPlace::kScratch)
    return crash(write ? "oob_write" : "oob_read", fmt::format("{} outside a scratch buffer", verb));
  const std::int64_t address = control.fault_offset.load();
  if (address >= 0 && address < kNullBytes)
    return crash("segfault", fmt::format("{} through a null pointer", verb));
  return crash("segfault", fmt::format("{} outside every buffer", verb));
}

}  // namespace

BlockOutcome describe_fault(const protocol::Control& control, int signal, const CpuWorkload& workload,
                            std::span<const int> trials) {
  using protocol::FaultKind;
  if (signal == SIGFPE) return crash("arithmetic", "divided an integer by zero, or overflowed in dividing");
  switch (static_cast<FaultKind>(control.fault_kind.load())) {
    case FaultKind::kStack:
      return crash("stack_overflow", kStackText);
    case FaultKind::kMisaligned:
      return crash("misaligned",
                   "an aligned load or store of a vector (_mm256_load_ps, _mm256_stream_ps, an alignas type) "
                   "at an address that is not aligned: rows start anywhere, so use loadu and storeu");
    case FaultKind::kBadAddress:
      return crash(
          "segfault",
          "an index or a pointer leads out of the address space: compare the types of the parameters "
          "with the tensors' dtypes");
    case FaultKind::kJump:
      return crash("segfault", "called a function through a pointer to none");
    case FaultKind::kTrap:
      return crash(
          "trap",
          "reached __builtin_trap(), or what the compiler makes of undefined behaviour that it sees: a "
          "null pointer, a function without return, __builtin_unreachable()");
    case FaultKind::kInstruction:
      return crash("illegal_instruction", "an instruction this machine does not have");
    case FaultKind::kAccess:
      break;
  }
  return describe_access(control, workload, trials);
}

BlockOutcome describe_self_end(const protocol::Control& control, protocol::SelfEnd end) {
  using protocol::SelfEnd;
  switch (end) {
    case SelfEnd::kAssertion: {
      const std::uint32_t line = control.assertion_line.load();
      return crash("assertion",
                   line == 0 ? "an assertion failed" : fmt::format("the assertion in line {} failed", line));
    }
    case SelfEnd::kAbort:
      return crash("abort", "called abort()");
    case SelfEnd::kTerminate:
      return crash("abort", "called std::terminate()");
    case SelfEnd::kPureVirtual:
      return crash("abort", "called a pure virtual function");
    case SelfEnd::kOutOfRange:
      return crash("abort", "an index of at() is out of range");
    case SelfEnd::kEmptyFunction:
      return crash("abort", "called an empty std::function");
    case SelfEnd::kDelete:
      return crash("abort", "called operator delete");
  }
  return crash("abort", "ended itself");
}

BlockOutcome describe_signal(int signal) {
  if (signal == SIGSEGV) return crash("segfault", "accessed memory that it must not");
  return crash(fmt::format("signal_{}", signal), fmt::format("killed by signal {}", signal));
}

BlockOutcome describe_overrun(const CpuWorkload::Overrun& overrun, const CpuWorkload& workload) {
  const auto output = static_cast<std::size_t>(overrun.output);
  return crash("oob_write",
               fmt::format("wrote {} bytes {} of '{}', which has {}", overrun.distance_bytes,
                           overrun.before ? "before the start" : "past the end",
                           workload.task.spec->outputs[output].name, workload.outputs().sizes[output]));
}

}  // namespace lathe
