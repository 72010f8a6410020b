#pragma once

#include <span>

#include "sandbox/memfd.h"

namespace lathe {

struct FaultRegions {
  const Mapping* control;
  const Mapping* inputs;
  const Mapping* outputs;
  std::span<const Mapping> scratch;
};

/// Installs signal handlers, on a stack of their own, that record the faulting address in the
/// control page and exit with 128 + signal. For messages only, because the candidate shares the
/// page.
void report_faults(const FaultRegions& regions);

}  // namespace lathe
