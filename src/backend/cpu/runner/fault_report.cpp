#include "backend/cpu/runner/fault_report.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace lathe {
namespace {

using protocol::FaultKind;
using protocol::FaultPlace;
using protocol::SelfEnd;

constexpr std::int64_t kNear = 1 << 20;  // a buffer's neighbourhood, for an index that is a little off
constexpr std::uint64_t kBelowStack = 64u << 10;  // a call, or what it saves, below the stack's pointer
constexpr std::size_t kHandlerStackBytes = 16384;

FaultRegions g_regions;  // a signal handler has no other way to its data; one thread sets it once
thread_local std::array<std::byte, kHandlerStackBytes> t_stack;
thread_local std::uint64_t t_stack_top = 0;

protocol::Control& control() { return *reinterpret_cast<protocol::Control*>(g_regions.control->data()); }

struct Spot {
  FaultPlace place = FaultPlace::kElsewhere;
  std::int64_t offset = 0;
};

/// The region that holds the address, or is nearest and near.
Spot spot_of(const void* at) {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at));
  Spot spot{FaultPlace::kElsewhere, address};
  std::int64_t least = kNear;
  const auto consider = [&](const Mapping& mapping, FaultPlace place) {
    if (mapping.size() == 0) return;
    const std::int64_t offset =
        address - static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(mapping.data()));
    const auto size = static_cast<std::int64_t>(mapping.size());
    const std::int64_t distance = offset < 0 ? -offset : offset < size ? 0 : offset - size + 1;
    if (distance < least) least = distance, spot = {place, offset};
  };
  for (const Mapping& scratch : g_regions.scratch) consider(scratch, FaultPlace::kScratch);
  consider(*g_regions.inputs, FaultPlace::kInputs);
  consider(*g_regions.outputs, FaultPlace::kOutputs);
  return spot;
}

/// Whether the instruction is a move of a vector that must be aligned.
bool is_aligned_move(const std::uint8_t* code) {
  if (code[0] == 0x66) ++code;
  if (code[0] >= 0x40 && code[0] <= 0x4f) ++code;
  const std::uint8_t opcode = code[0] == 0xc5   ? code[2]
                              : code[0] == 0xc4 ? code[3]
                              : code[0] == 0x62 ? code[4]
                              : code[0] == 0x0f ? code[1]
                                                : std::uint8_t{0};
  for (const int aligned : {0x28, 0x29, 0x2a, 0x2b, 0x6f, 0x7f, 0xe7})
    if (opcode == aligned) return true;
  return false;
}

FaultKind kind_of(int signal, const siginfo_t& info, const greg_t* registers, FaultPlace place) {
  const auto* const code = reinterpret_cast<const std::uint8_t*>(registers[REG_RIP]);
  if (signal == SIGTRAP) return FaultKind::kTrap;
  if (signal == SIGILL)
    return code[0] == 0x0f && code[1] == 0x0b ? FaultKind::kTrap : FaultKind::kInstruction;
  if (signal == SIGBUS && info.si_code == BUS_ADRALN) return FaultKind::kMisaligned;
  if (signal == SIGSEGV && info.si_code == SI_KERNEL)
    return is_aligned_move(code) ? FaultKind::kMisaligned : FaultKind::kBadAddress;
  constexpr greg_t kFetch = 0x10;
  if ((registers[REG_ERR] & kFetch) != 0) return FaultKind::kJump;
  const auto at = reinterpret_cast<std::uint64_t>(info.si_addr);
  const bool in_stack =
      at + kBelowStack >= static_cast<std::uint64_t>(registers[REG_RSP]) && at < t_stack_top;
  return in_stack && place == FaultPlace::kElsewhere ? FaultKind::kStack : FaultKind::kAccess;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const Spot spot = spot_of(info->si_addr);
  control().fault_kind.store(static_cast<std::uint32_t>(kind_of(signal, *info, registers, spot.place)));
  control().fault_place.store(static_cast<std::uint32_t>(spot.place));
  control().fault_offset.store(spot.offset);
  control().fault_write.store((registers[REG_ERR] & 2) != 0);
  ::syscall(SYS_exit_group, protocol::kExitFault + signal);
}

template <SelfEnd end>
[[noreturn]] void end_self() {
  ::syscall(SYS_exit_group, protocol::kExitSelfEnd + static_cast<int>(end));
  __builtin_unreachable();
}

[[noreturn]] void fail_assertion(const char*, const char* file, unsigned line, const char*) {
  const bool own = std::string_view(file) == "candidate";
  control().assertion_line.store(own ? line : 0);
  end_self<SelfEnd::kAssertion>();
}

}  // namespace

void report_faults_of_thread() {
  t_stack_top = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const stack_t stack{t_stack.data(), 0, t_stack.size()};
  ::sigaltstack(&stack, nullptr);
}

void report_faults(const FaultRegions& regions) {
  g_regions = regions;
  report_faults_of_thread();
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) ::sigaction(signal, &action, nullptr);
}

std::uint64_t address_of_ending(SelfEnd end) {
  const auto address = [](auto* function) { return reinterpret_cast<std::uint64_t>(function); };
  switch (end) {
    case SelfEnd::kAssertion:
      return address(&fail_assertion);
    case SelfEnd::kAbort:
      return address(&end_self<SelfEnd::kAbort>);
    case SelfEnd::kTerminate:
      return address(&end_self<SelfEnd::kTerminate>);
    case SelfEnd::kPureVirtual:
      return address(&end_self<SelfEnd::kPureVirtual>);
    case SelfEnd::kOutOfRange:
      return address(&end_self<SelfEnd::kOutOfRange>);
    case SelfEnd::kEmptyFunction:
      return address(&end_self<SelfEnd::kEmptyFunction>);
    case SelfEnd::kDelete:
      return address(&end_self<SelfEnd::kDelete>);
  }
  return 0;
}

}  // namespace lathe
