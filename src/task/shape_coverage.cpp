#include "task/shape_coverage.h"

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

constexpr std::int64_t kVector = 4, kFew = 8, kTile = 16, kMany = 64, kPartsOfRange = 6;
constexpr std::size_t kHalves = 4;  // of tiles of 8, 16, 32 and 64
constexpr double kPairs = 1.5;      // of dims, whose relations count in full
constexpr double kShort = 3;        // dims, whose least extents do
constexpr double kSpread = 4;       // between the logarithms of the largest and the least factor

}  // namespace

// The weights are such that of few shapes some are short in a dim and the others ragged in it, and
// that no class becomes rare for another's sake.
template <class Visit>
std::size_t ShapeCoverage::each_trait(const Dims& dims, Visit visit) const {
  std::size_t trait = 0;
  const double pairs = static_cast<double>(dims_.size() * (dims_.size() - 1)) / 2;
  const double pair_share = std::min(1.0, kPairs / pairs);
  const double dim_share = std::min(1.0, kShort / static_cast<double>(dims_.size()));
  const auto next = [&](bool holds, double weight) {
    if (holds) visit(trait, weight);
    ++trait;
  };
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    const Dim& dim = dims_[d];
    const std::int64_t n = dims.at(dim.name);
    next(n == dim.range.low, 57 * dim_share);
    for (std::int64_t few = 1; few < kFew; ++few) next(n == dim.range.low + few, 4);
    next(n > dim.range.low && n < kFew, 6);
    for (std::int64_t rest = 1; rest < kVector; ++rest) next(n > kVector && n % kVector == rest, 9);
    for (std::int64_t rest = 1; rest < kFew; ++rest) next(n > kFew && n % kFew == rest, 3);
    next(n > kVector && n % kVector >= kVector / 2, 4);
    for (std::int64_t tile = kFew; tile <= kFew << (kHalves - 1); tile *= 2) {
      const std::int64_t rest = n > tile ? n % tile : 0;
      next(rest > 0 && 2 * rest < tile, 0.75);
      next(2 * rest >= tile, 0.75);
    }
    next(n > kMany && n % 2 == 1, 0.5);
    next(n > dim.longest, 7.5);
    next(n > dim.range.high / 2, 2);
    for (std::int64_t part = 1; part < kPartsOfRange; ++part)
      next(kPartsOfRange * n > part * dim.range.high && kPartsOfRange * n <= (part + 1) * dim.range.high,
           part + 1 < kPartsOfRange ? 4 : 14);
    for (std::size_t e = 0; e < d; ++e) {
      const std::int64_t m = dims.at(dims_[e].name);
      next(m == n && n > kVector, 50 * pair_share);
      next(m > n && n > 1 && m % n == 0, 18 * pair_share);
      next(n > m && m > 1 && n % m == 0, 18 * pair_share);
      next(m == n + 1 && n > 1, 12 * pair_share);
      next(n == m + 1 && m > 1, 12 * pair_share);
      next(m > n, 1);
      next(m < n, 1);
      next(m < kMany / 2 && n < kMany / 2, 1);
      next(m > kFew && n > kFew && m % 2 == 1 && n % 2 == 1, 1);
      next(m % kTile == 0 && n > kFew && n % kTile != 0, 1.5);
      next(n % kTile == 0 && m > kFew && m % kTile != 0, 1.5);
    }
  }
  return trait;
}

ShapeCoverage::ShapeCoverage(const TaskSpec& spec, const Seed& seed) {
  for (const std::string& name : spec.dim_names) {
    Dim dim{name, spec.dim_ranges.at(name)};
    for (const NamedShape& shape : spec.shapes) dim.longest = std::max(dim.longest, shape.dims.at(name));
    dims_.push_back(std::move(dim));
  }
  Dims any;
  for (const Dim& dim : dims_) any[dim.name] = dim.range.low;
  met_.resize(each_trait(any, [](std::size_t, double) {}));
  Rng rng(seed.derive("traits"));
  for (std::size_t i = 0; i < met_.size(); ++i) factors_.push_back(std::exp(kSpread * (rng.uniform() - 0.5)));
}

double ShapeCoverage::gain(const Dims& dims) const {
  double sum = 0;
  each_trait(dims, [&](std::size_t trait, double weight) {
    if (!met_[trait]) sum += weight * factors_[trait];
  });
  return sum;
}

void ShapeCoverage::add(const Dims& dims) {
  each_trait(dims, [&](std::size_t trait, double) { met_[trait] = true; });
}

}  // namespace lathe
