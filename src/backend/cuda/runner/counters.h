#pragma once

#include <map>
#include <string>
#include <vector>

/// Derives Lathe's profile counters (docs/cuda.md) from NVIDIA's hardware metrics. Pure functions.
namespace lathe::cuda {

/// The hardware metrics to collect.
std::vector<std::string> hardware_metrics();

/// The counted block's timing without counting, which would slow it down.
struct CountedBlock {
  double device_ns = 0;
  int calls = 1;
};

/// Counters of one call: bytes and instructions per call, shares of a unit's peak over the block's
/// uncounted time. Counters whose metrics are missing are left out.
std::map<std::string, double> name_counters(const std::map<std::string, double>& metrics,
                                            const CountedBlock& block);

/// A launch and its use of resources.
struct KernelUse {
  double blocks = 1, threads = 1;  ///< blocks per grid, threads per block
  double registers = 0;            ///< per thread
  double shared_bytes = 0;         ///< per block: static, dynamic and reserved by the driver
  double local_bytes = 0;          ///< per thread
  double blocks_per_sm = 0;        ///< resident at once, from the driver; 0 if unknown
};
struct SmLimits {
  double multiprocessors = 1;
  double threads = 2048, blocks = 32, registers = 65536, shared_bytes = 0;
};

/// "threads", "registers", "theoretical_occupancy", "waves", and "limit_...": how many blocks a
/// multiprocessor could hold if only that resource counted.
std::map<std::string, double> kernel_facts(const KernelUse& use, const SmLimits& limits);

}  // namespace lathe::cuda
