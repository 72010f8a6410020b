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

/// Installs handlers (on their own stack) that write where a fault happened into the control page and end the
/// process with 128 + signal. For messages only: the candidate shares the page.
void report_faults(const FaultRegions& regions);

}  // namespace lathe
