#pragma once

#include <vector>

#include "backend/backend.h"

namespace lathe::catalog {

/// What one step costs at the headline shape.
struct Work {
  double bytes = 0;
  double flops = 0;    ///< by well-used vector units
  double special = 0;  ///< exp, tanh, ...: evaluations
};

/// Nanoseconds at the headline shape: each kernel takes the longest of its memory traffic at the
/// bandwidth of the level that holds it, its arithmetic at the peak, and its transcendental
/// functions; kernels add up. Only the order of the results matters: it ranks proposals.
double predict_ns(const std::vector<Work>& work, const DevicePeaks& peaks, int threads);

}  // namespace lathe::catalog
