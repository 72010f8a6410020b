#pragma once

#include <array>
#include <vector>

#include "task/op.h"

/// What adaptive pools and interpolations share: the last axes of x [N, C, ...] get the extents of
/// the attribute `size`.
namespace lathe::ops {

/// Up to three axes; of fewer, the leading ones have an extent of 1.
using Axes = std::array<std::int64_t, 3>;

struct Resampling {
  Axes in{1, 1, 1};
  Axes out{1, 1, 1};

  std::int64_t planes = 1;
  std::int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_plane() const { return out[0] * out[1] * out[2]; }
  std::size_t offset(std::int64_t a, std::int64_t b, std::int64_t c) const {
    return static_cast<std::size_t>((a * in[1] + b) * in[2] + c);
  }
};

AttrRule size_rule();
/// x with the extents `size` along its last `axes` axes: one for each, or one for all.
Result<SymbolicType> resized(const InferContext& context, std::size_t axes);
Resampling make_resampling(const OpSite& site, std::size_t axes);

/// Extents beyond this are too many to look at one by one where only a bound is wanted.
inline constexpr std::int64_t kMostPositions = 1 << 18;

}  // namespace lathe::ops
