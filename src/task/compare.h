#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "task/reference.h"

namespace lathe {

/// How far one output lies from what it must be.
struct Comparison {
  bool pass = true;
  std::string reason;  ///< stable code when failed: "bound", "nan_mask", "rms", "tile_rms", "exact", "argmax"
  double worst_ratio = 0;  ///< max |error| / tolerance
  double rms_error = 0;
  std::int64_t first_bad = -1;  ///< flat index
  std::int64_t bad_count = 0;
  double got = 0;  ///< at first_bad
  double want = 0;
};

/// RMS errors of the naive build on the same inputs, global and for each tile of 4096 elements: a candidate
/// may have 8 times as much. Empty: not checked.
struct RmsLimit {
  double global = 0;
  std::vector<double> tiles;
};
inline constexpr std::int64_t kRmsTile = 4096;

/// Which tiles of an output are compared.
struct TileChoice {
  double fraction = 1;
  std::uint64_t secret = 0;

  bool includes(std::size_t tile) const;
};
constexpr std::size_t tile_count(std::size_t elements) {
  return (elements + static_cast<std::size_t>(kRmsTile) - 1) / static_cast<std::size_t>(kRmsTile);
}

/// Compares raw output bytes with what they must be. `limit` may be null.
Comparison compare(const Expected& expected, std::span<const std::byte> got, const RmsLimit* limit);

/// Compares a share of the tiles, perhaps none: cheap enough for every timed call. Of `limit`, which may be
/// null, the tiles count. What lies in others is not read.
Comparison compare_sample(const Expected& expected, std::span<const std::byte> got, const TileChoice& choice,
                          const RmsLimit* limit = nullptr);

/// Measures the naive build's own error, from which RmsLimit follows (floored at the output's rounding).
RmsLimit measure_rms(const Expected& expected, std::span<const std::byte> got);

/// How values lie to what is wanted of them.
struct Tally {
  bool outside = false;   ///< one beyond its tolerance, or NaN
  bool above = false;     ///< one beyond `ratio` times its tolerance, or NaN
  double square_sum = 0;  ///< of all differences
};

/// In one pass: this is most of what comparing a timed block costs.
Tally tally_of(const double* want, const double* tolerance, const double* got, std::size_t size,
               double ratio);

}  // namespace lathe
