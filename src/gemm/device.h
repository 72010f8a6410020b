#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gemm/runtime/plan.h"

namespace lathe::gemm {

/// M, N and K of a packed, aligned product.
struct Size {
  std::int64_t m = 0, n = 0, k = 0;

  friend auto operator<=>(const Size&, const Size&) = default;
};
inline double flop_of(const Size& size) {
  return 2.0 * static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k);
}

inline Problem problem_of(const Track& track, const Size& size) {
  Problem problem{track.layout, size.m, size.n, size.k};
  problem.half_sums = track.half_sums;
  return problem;
}

/// A compiled kernel. The facts are those of the build (registers, stack_bytes, spill_bytes) and,
/// if it was inspected, of its machine code (instructions, hmma_f32, hgmma_f32, ...).
struct Build {
  std::string cubin;
  std::map<std::string, double> facts;
};
/// Disassembling takes longer than compiling: it is for kernels that are kept. Without a
/// disassembler an inspected build lacks the facts.
enum class Inspect { kNo, kYes };
/// Thread-safe.
using Compile = std::function<Result<Build>(const std::string& source, Inspect inspect)>;

struct DeviceFacts {
  std::string name;
  int sm_count = 0;
};

/// One of those who compute the products of a size: a kernel, or a vendor's call.
using Contender = int;
struct VendorContender {
  Contender id;
  std::string name;  ///< "cublas_nn", "lt_tn_3": the layout, and the rank in the library's own order
};

struct TimeOptions {
  bool cold = false;  ///< buffers rotate, with twice the L2 between two uses of one
  int rounds = 5;
  double block_us = 150;  ///< of a graph of calls
  int least_calls = 20;   ///< of a graph, however long they take
};

/// Times of one contender, one a round, in ns a call. Rounds are common: they pair.
using RoundTimes = std::vector<double>;

/// Calls as a program makes them that waits for each.
struct CallOptions {
  int calls = 30;     ///< of each contender
  double gap_us = 0;  ///< mean of the exponential gaps in which the host sleeps; 0: call after call
};
/// On the host's clock, one number a call.
struct CallTimes {
  std::vector<double> ns;       ///< until the result was there
  std::vector<double> host_ns;  ///< until the call returned
};

/// What a GPU's sensors said while one contender ran again and again.
struct Draw {
  double watts = 0;
  std::string throttle;  ///< reasons of a reduced clock, "power_cap+thermal"; empty: none
};

/// A GPU as the tuner sees it. Not thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;

  virtual Result<Contender> add_kernel(const Plan& plan, std::string_view cubin) = 0;
  /// cuBLAS by layout, then all of cuBLASLt's candidates, the heuristic's first choice first. For
  /// TN also those for NN: who keeps B may choose.
  virtual Result<std::vector<VendorContender>> add_vendors(const Size& size, const Track& track) = 0;
  /// Forgets the vendor's contenders.
  virtual void drop_vendors() = 0;

  /// All within the same seconds: graphs of calls, in an order drawn anew each round.
  virtual Result<std::vector<RoundTimes>> time(const Size& size, std::span<const Contender> contenders,
                                               const TimeOptions& options) = 0;

  /// In short blocks of calls of one contender, whose order is drawn anew each time.
  virtual Result<std::vector<CallTimes>> time_calls(const Size& size, std::span<const Contender> contenders,
                                                    const CallOptions& options) = 0;

  /// Every check of docs/gemm.md. An error with a reason: the kernel is wrong; without: the
  /// device's fault.
  virtual Status verify(const Size& size, Contender kernel, int repeats) = 0;

  /// Runs the contender for so long, and reads the sensors in the second half. kUnavailable without
  /// any.
  virtual Result<Draw> draw(const Size& size, Contender contender, double seconds) = 0;

  /// Measured between two clocks of the GPU over some microseconds; 0 where these said nothing.
  virtual Result<double> clock_mhz() = 0;
};

/// 0 for cycles and ns of no clock that a GPU has.
inline double mhz_of(std::int64_t cycles, std::int64_t ns) {
  if (cycles <= 0 || ns <= 0) return 0;
  const double mhz = static_cast<double>(cycles) / static_cast<double>(ns) * 1e3;
  return mhz >= 10 && mhz <= 10'000 ? mhz : 0;
}

}  // namespace lathe::gemm
