#pragma once

#include <map>
#include <string>
#include <vector>

#include "record/verdict.h"

namespace lathe {

/// Names what holds a kernel back, the strongest first, from the counters of one call (docs/cuda.md
/// has the names of both). A counter that is missing supports no conclusion.
std::vector<Bottleneck> find_bottlenecks(const std::map<std::string, double>& counters);

}  // namespace lathe
