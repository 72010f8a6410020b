#pragma once

#include <map>
#include <string>
#include <vector>

/// Counters of NVIDIA's hardware under Lathe's names (docs/cuda.md). Pure.
namespace lathe::cuda {

/// What the hardware is asked for.
std::vector<std::string> hardware_metrics();

/// How the block that was counted ran on its own: counting makes it longer.
struct CountedBlock {
  double device_ns = 0;
  int calls = 1;
};

/// Lathe's counters of one call: bytes and instructions a call, shares of a unit's peak over the block's own
/// time. A counter whose metrics are missing is missing.
std::map<std::string, double> name_counters(const std::map<std::string, double>& metrics,
                                            const CountedBlock& block);

/// One launch of a kernel and what a multiprocessor has for it.
struct KernelUse {
  double blocks = 1, threads = 1;  ///< of the grid; of a block
  double registers = 0;            ///< a thread
  double shared_bytes = 0;         ///< a block: static, dynamic and what the driver reserves
  double local_bytes = 0;          ///< a thread
  double blocks_per_sm = 0;        ///< resident at once, as the driver says; 0 if it does not
};
struct SmLimits {
  double multiprocessors = 1;
  double threads = 2048, blocks = 32, registers = 65536, shared_bytes = 0;
};

/// "threads", "registers", "theoretical_occupancy", "waves", and "limit_...": how many blocks a
/// multiprocessor could hold if only that resource counted.
std::map<std::string, double> kernel_facts(const KernelUse& use, const SmLimits& limits);

}  // namespace lathe::cuda
