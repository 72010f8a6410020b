#pragma once

#include "backend/backend.h"

namespace lathe {

/// Measures this machine with `threads` threads: fp32 multiply-add rate, and of each cache level
/// and of main memory the bytes that can be read, or read and written, in a second; best of several
/// passes. Takes about a second; callers cache it.
DevicePeaks measure_cpu_peaks(int threads, const Dims& facts);

}  // namespace lathe
