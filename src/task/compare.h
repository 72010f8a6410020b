#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "task/reference.h"

namespace lathe {

/// What an output with too few elements for an RMS error of its own, or with few indices that miss
/// the right value, adds to one of several calls' outputs together, on different inputs.
struct FewErrors {
  double squares = 0;
  double allowed = 0;
  std::int64_t count = 0;
  bool independent = false;  ///< no error is another element's as well
  double least_allowed = 0;  ///< of an order's misses, however few; 0 of all else

  FewErrors& operator+=(const FewErrors& other);
  /// Of too few elements too; of few independent ones, where errors are beyond what luck makes of
  /// them.
  bool pass() const;
};

/// Whether a narrow output is further off than one rounding of its values explains, to the nearest
/// or towards zero. No kernel's is both.
struct BeyondRounding {
  bool to_nearest = false;
  bool towards_zero = false;

  BeyondRounding& operator|=(const BeyondRounding& other);
  bool both() const { return to_nearest && towards_zero; }
};

/// The result of comparing one output with its expected values.
struct Comparison {
  bool pass = true;
  std::string reason;  ///< if failed: "bound", "nan_mask", "rms", "tile_rms", "exact", "argmax", "argsort"
  double worst_ratio = 0;       ///< max |error| / tolerance
  double rms_error = 0;         ///< for kAmplified and kJumping in units of the elements' bounds, for
                                ///< indices of their limit
  std::int64_t first_bad = -1;  ///< flat index
  std::int64_t bad_count = 0;
  double got = 0;  ///< at first_bad
  double want = 0;
  FewErrors few = {};
  BeyondRounding beyond = {};
};

/// RMS errors of the naive build on the same inputs, over the whole output and, but for indices,
/// for each tile of 4096 elements. A candidate's may be 8 times as large. Empty: not checked.
struct RmsLimit {
  double global = 0;
  std::vector<double> tiles;
  bool beyond_rounding = false;  ///< the naive build itself is
};
inline constexpr std::int64_t kRmsTile = 4096;

/// Which tiles of an output's known values are compared.
struct TileChoice {
  double fraction = 1;
  std::uint64_t secret = 0;

  bool includes(std::size_t tile) const;
};
constexpr std::size_t tile_count(std::size_t elements) {
  return (elements + static_cast<std::size_t>(kRmsTile) - 1) / static_cast<std::size_t>(kRmsTile);
}

/// Compares an output's raw bytes, all of them, with the values that are known of it. `limit` may
/// be null.
Comparison compare(const Expected& expected, std::span<const std::byte> got, const RmsLimit* limit);

/// Compares a sample of the tiles, possibly none, so that it is cheap enough for every timed call.
/// Only the per-tile part of `limit` (which may be null) applies; elements of other tiles are not
/// read.
Comparison compare_sample(const Expected& expected, std::span<const std::byte> got, const TileChoice& choice,
                          const RmsLimit* limit = nullptr);

/// Measures the naive build's own RMS errors, which are at least those of rounding to the output's
/// dtype.
RmsLimit measure_rms(const Expected& expected, std::span<const std::byte> got);

/// A summary of the errors of many elements.
struct ErrorSummary {
  bool outside = false;   ///< some element exceeds its tolerance or is NaN
  bool above = false;     ///< some element exceeds `ratio` times its tolerance or is NaN
  double square_sum = 0;  ///< the sum of the squared errors
};

/// One vectorised pass: it dominates the cost of comparing a timed block.
ErrorSummary summarize_errors(const double* want, const double* tolerance, const double* got,
                              std::size_t size, double ratio);

}  // namespace lathe
