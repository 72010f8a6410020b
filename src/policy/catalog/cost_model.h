#pragma once

#include <vector>

#include "backend/backend.h"
#include "policy/catalog/writer.h"

namespace lathe::catalog {

/// Nanoseconds at the headline shape: each kernel takes the longest of its memory traffic at the bandwidth of
/// the level that holds it, its arithmetic at the peak, and its transcendental functions; kernels add up.
/// Only the order of the results matters: it ranks proposals.
double predict_ns(const std::vector<Work>& work, const DevicePeaks& peaks, int threads);

}  // namespace lathe::catalog
