#pragma once

#include <string>
#include <vector>

#include "gemm/bench.h"

namespace lathe {

/// A heat map as a standalone SVG file: a square for each M and N, in it a cell for each K,
/// coloured by the time of cuBLASLt autotuned over the kernel's.
std::string gemm_heat_map(const std::vector<gemm::Row>& rows);

}  // namespace lathe
