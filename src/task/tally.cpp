#include "task/tally.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace lathe {
namespace {

constexpr std::size_t kLanes = 8;
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Masks = std::int64_t __attribute__((vector_size(kLanes * sizeof(std::int64_t))));

// Clang's run-time choice of a version does not work in a program with sanitizers.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LATHE_VERSIONS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LATHE_VERSIONS
#endif

}  // namespace

LATHE_VERSIONS Tally tally_of(const double* want, const double* tolerance, const double* got,
                              std::size_t size, double ratio) {
  Masks inside = Masks{} - 1, below = Masks{} - 1;
  Doubles squares = {};
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Doubles w, e, g;
    std::memcpy(&w, want + i, sizeof w);
    std::memcpy(&e, tolerance + i, sizeof e);
    std::memcpy(&g, got + i, sizeof g);
    const Doubles difference = g - w;
    const Doubles magnitude = difference > 0 ? difference : -difference;
    inside &= magnitude <= e;
    below &= magnitude <= ratio * e;
    squares += difference * difference;
  }
  Tally tally;
  for (; i < size; ++i) {
    const double magnitude = std::fabs(got[i] - want[i]);
    tally.outside |= !(magnitude <= tolerance[i]);
    tally.above |= !(magnitude <= ratio * tolerance[i]);
    tally.square_sum += magnitude * magnitude;
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    tally.outside |= inside[lane] == 0;
    tally.above |= below[lane] == 0;
    tally.square_sum += squares[lane];
  }
  return tally;
}

}  // namespace lathe
