#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/protocol.h"
#include "sandbox/memfd.h"

namespace lathe {

struct FaultRegions {
  const Mapping* control;
  const Mapping* inputs;
  const Mapping* outputs;
  std::span<const Mapping> scratch;
};

/// Installs signal handlers, on a stack of their own, that record in the control page what happened
/// and exit with 128 + signal. For messages only, because the candidate shares the page.
void report_faults(const FaultRegions& regions);

/// Gives the calling thread the stack that its handlers need where its own has no room left. The
/// thread that calls report_faults() has one.
void report_faults_of_thread();

/// The function that a kernel calls to end its process in this way.
std::uint64_t address_of_ending(protocol::SelfEnd end);

}  // namespace lathe
