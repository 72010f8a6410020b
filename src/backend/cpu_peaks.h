#pragma once

#include "backend/backend.h"

namespace lathe {

/// Measures this machine with `threads` threads: fp32 multiply-add rate and read bandwidth of each
/// cache level and of main memory, best of several passes. Takes about half a second; callers cache
/// it.
DevicePeaks measure_cpu_peaks(int threads, const Dims& facts);

}  // namespace lathe
