#include "backend/cpu/runner/fault_report.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>

#include "backend/cpu/protocol.h"

namespace lathe {
namespace {

FaultRegions g_regions;  // a signal handler has no other way to its data; one thread sets it once
std::array<std::byte, 16384> g_stack;

bool holds(const Mapping& mapping, const void* address, std::uint64_t& offset) {
  const auto* at = static_cast<const std::byte*>(address);
  if (at < mapping.data() || at >= mapping.data() + mapping.size()) return false;
  offset = static_cast<std::uint64_t>(at - mapping.data());
  return true;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  using protocol::FaultPlace;
  auto* const control = reinterpret_cast<protocol::Control*>(g_regions.control->data());
  FaultPlace place = FaultPlace::kElsewhere;
  std::uint64_t offset = 0;
  if (holds(*g_regions.inputs, info->si_addr, offset))
    place = FaultPlace::kInputs;
  else if (holds(*g_regions.outputs, info->si_addr, offset))
    place = FaultPlace::kOutputs;
  for (const Mapping& scratch : g_regions.scratch)
    if (holds(scratch, info->si_addr, offset)) place = FaultPlace::kScratch;
  control->fault_place.store(static_cast<std::uint32_t>(place));
  control->fault_offset.store(offset);
  control->fault_write.store((static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0);
  ::syscall(SYS_exit_group, protocol::kExitFault + signal);
}

}  // namespace

void report_faults(const FaultRegions& regions) {
  g_regions = regions;
  const stack_t stack{g_stack.data(), 0, g_stack.size()};
  ::sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) ::sigaction(signal, &action, nullptr);
}

}  // namespace lathe
