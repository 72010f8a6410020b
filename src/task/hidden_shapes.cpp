#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "task/bound_task.h"
#include "task/spec_parse.h"

namespace lathe {
namespace {

constexpr int kTriesPerShape = 400;
constexpr double kSquares = 0.15, kThin = 0.15;  // of the awkward shapes
constexpr double kMaxHiddenElements = 1 << 21;   ///< of all values together, to keep verification fast
constexpr std::array<std::int64_t, 7> kTiles = {4, 8, 16, 32, 64, 128, 256};
constexpr std::array<std::int64_t, 16> kPrimes = {2,  3,  5,   7,   13,  17,  31,  37,
                                                  61, 97, 127, 131, 257, 509, 521, 1021};
constexpr std::array<std::int64_t, 5> kAlignments = {2, 8, 16, 32, 64};

enum class Style { kTileEdge, kPrime, kOdd, kTiny, kAligned, kAny, kCount };

/// A log-uniform integer.
std::int64_t log_uniform(Rng& rng, std::int64_t low, std::int64_t high) {
  const double drawn = std::log(static_cast<double>(low)) +
                       rng.uniform() * std::log(static_cast<double>(high + 1) / static_cast<double>(low));
  return std::clamp(static_cast<std::int64_t>(std::exp(drawn)), low, high);
}

std::int64_t draw_extent(Rng& rng, const DimRange& range, Style style) {
  std::int64_t extent = log_uniform(rng, range.low, range.high);
  switch (style) {
    case Style::kTileEdge:
      extent = kTiles[rng.below(kTiles.size())] * rng.between(1, 5) + rng.between(-1, 1);
      break;
    case Style::kPrime:
      extent = kPrimes[rng.below(kPrimes.size())];
      break;
    case Style::kOdd:
      extent |= 1;
      break;
    case Style::kTiny:
      extent = range.low + rng.between(0, 2);
      break;
    case Style::kAligned: {
      const std::int64_t tile = kAlignments[rng.below(kAlignments.size())];
      extent = (extent + tile - 1) / tile * tile;
      break;
    }
    case Style::kAny:
    case Style::kCount:
      break;
  }
  return std::clamp(extent, range.low, range.high);
}

/// In the upper half of the range, its end and multiples of 64 among them.
std::int64_t draw_high(Rng& rng, const DimRange& range) {
  std::int64_t extent = range.high;
  if (rng.chance(0.75)) extent = rng.between(std::max(range.low, range.high / 2), range.high);
  if (rng.chance(0.5)) extent = std::max(range.low, extent / 64 * 64);
  return extent;
}

/// Draws the style of each dim independently, so that a shape may be tiny or odd in one dim and
/// ordinary in another.
Dims draw_dims(const TaskSpec& spec, Rng& rng, Style main_style) {
  Dims dims;
  const std::size_t favoured = spec.dim_names.empty() ? 0 : rng.below(spec.dim_names.size());
  for (std::size_t i = 0; i < spec.dim_names.size(); ++i) {
    const bool main = i == favoured || rng.chance(0.4);
    const auto other = static_cast<Style>(rng.below(static_cast<std::uint64_t>(Style::kCount)));
    dims[spec.dim_names[i]] =
        draw_extent(rng, spec.dim_ranges.at(spec.dim_names[i]), main ? main_style : other);
  }
  return dims;
}

/// The same, but some shapes are squares, as far as ranges allow, and some have one extent in the
/// upper half of its range beside tiny ones.
Dims draw_awkward(const TaskSpec& spec, Rng& rng, Style style) {
  Dims dims = draw_dims(spec, rng, style);
  const std::string& favoured = spec.dim_names[rng.below(spec.dim_names.size())];
  const double kind = rng.uniform();
  const bool square = kind < kSquares, thin = !square && kind < kSquares + kThin;
  if (!square && !thin) return dims;
  const std::int64_t side = dims.at(favoured);
  for (auto& [name, extent] : dims) {
    const DimRange& range = spec.dim_ranges.at(name);
    if (square) extent = std::clamp(side, range.low, range.high);
    if (thin) extent = name == favoured ? draw_high(rng, range) : draw_extent(rng, range, Style::kTiny);
  }
  return dims;
}

bool fits(const BoundTask& task, const SizeLimits& limits) {
  return task.flops <= limits.flops && task.value_elements() <= limits.elements;
}

bool inside(const TaskSpec& spec, const Dims& dims) {
  if (!spec.where.has_value()) return true;
  const Result<std::int64_t> value = spec.where->evaluate(dims);
  return value.ok() && *value != 0;
}

/// Every extent a multiple of one tile, or of the largest power of two in its range.
Dims draw_aligned(const TaskSpec& spec, Rng& rng, std::int64_t tile) {
  Dims dims;
  for (const std::string& name : spec.dim_names) {
    const DimRange& range = spec.dim_ranges.at(name);
    const auto step = std::min<std::int64_t>(
        tile, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(range.high))));
    const std::int64_t least = (range.low + step - 1) / step;
    dims[name] = std::min(range.high, step * log_uniform(rng, least, std::max(least, range.high / step)));
  }
  return dims;
}

Dims draw_high(const TaskSpec& spec, Rng& rng) {
  Dims dims;
  for (const std::string& name : spec.dim_names) dims[name] = draw_high(rng, spec.dim_ranges.at(name));
  return dims;
}

/// Halves the largest dim, to multiples of `tile`, until the shape is within the limits.
Dims shrink(const TaskSpec& spec, Dims dims, const SizeLimits& limits, std::int64_t tile = 1) {
  for (int round = 0; round < 64; ++round) {
    const Result<BoundTask> bound = lathe::bind(spec, dims);
    if (!bound.ok() || fits(*bound, limits)) return dims;
    const auto largest = std::ranges::max_element(dims, {}, [](const auto& dim) { return dim.second; });
    if (largest == dims.end()) return dims;
    const std::int64_t low = spec.dim_ranges.at(largest->first).low;
    if (largest->second <= low) return dims;
    const std::int64_t half = largest->second / 2;
    largest->second = std::max(low, half < tile ? half : half / tile * tile);
  }
  return dims;
}

bool is_within(const TaskSpec& spec, const Dims& dims, const SizeLimits& limits) {
  if (!inside(spec, dims)) return false;
  const Result<BoundTask> bound = lathe::bind(spec, dims);
  return bound.ok() && fits(*bound, limits);
}

}  // namespace

std::vector<Dims> draw_hidden_shapes(const TaskSpec& spec, const Seed& seed, int count, double max_flops) {
  std::vector<Dims> shapes;
  if (spec.fixed || spec.dim_names.empty()) return shapes;
  std::set<Dims> seen;
  for (const NamedShape& shape : spec.shapes) seen.insert(shape.dims);
  constexpr std::array kAwkward = {Style::kTileEdge, Style::kPrime, Style::kTiny, Style::kOdd};
  constexpr std::array<std::int64_t, 2> kSharedTiles = {64, 128};
  const SizeLimits limits{max_flops, kMaxHiddenElements};
  Rng rng(seed.derive("hidden shapes"));
  for (int i = 0; i < count; ++i) {
    for (int tries = 0; tries < kTriesPerShape; ++tries) {
      const bool desperate = tries >= kTriesPerShape / 4;
      const std::int64_t tile = kSharedTiles[rng.below(kSharedTiles.size())];
      Style style = kAwkward[rng.below(kAwkward.size())];
      if (desperate) style = rng.chance(0.5) ? Style::kAligned : Style::kAny;
      const Dims dims = i % 3 == 1 && !desperate ? shrink(spec, draw_aligned(spec, rng, tile), limits, tile)
                                                 : shrink(spec, draw_awkward(spec, rng, style), limits);
      if (!is_within(spec, dims, limits) || !seen.insert(dims).second) continue;
      shapes.push_back(dims);
      break;
    }
  }
  return shapes;
}

std::optional<Dims> draw_large_shape(const TaskSpec& spec, const Seed& seed, const SizeLimits& limits) {
  if (spec.fixed || spec.dim_names.empty()) return std::nullopt;
  Rng rng(seed.derive("large shape"));
  for (int tries = 0; tries < kTriesPerShape; ++tries) {
    const Dims high = draw_high(spec, rng);
    const Dims dims = shrink(spec, high, limits, rng.chance(0.5) ? 64 : 1);
    if (is_within(spec, dims, limits) && lathe::bind(spec, dims)->value_elements() > kMaxHiddenElements)
      return dims;
  }
  return std::nullopt;
}

std::optional<Dims> draw_shape_beyond(const TaskSpec& spec, const Seed& seed, const SizeLimits& limits) {
  if (spec.fixed) return std::nullopt;
  Dims scored;
  for (const NamedShape& shape : spec.shapes)
    for (const auto& [name, extent] : shape.dims) scored[name] = std::max(scored[name], extent);
  Rng rng(seed.derive("shape beyond"));
  for (int tries = 0; tries < kTriesPerShape; ++tries) {
    Dims dims;
    bool beyond = false;
    for (const std::string& name : spec.dim_names) {
      const DimRange& range = spec.dim_ranges.at(name);
      const bool open = scored[name] < range.high;
      dims[name] = open ? rng.between(std::max(range.low, scored[name] + 1), range.high) : range.high;
      beyond = beyond || open;
    }
    if (!beyond) return std::nullopt;
    if (is_within(spec, dims, limits)) return dims;
  }
  return std::nullopt;
}

std::vector<Dims> probe_shapes(const TaskSpec& spec) {
  std::vector<Dims> probes;
  for (const NamedShape& shape : spec.shapes) probes.push_back(shape.dims);
  if (spec.fixed || spec.dim_names.empty()) return probes;
  constexpr int kProbes = 6;
  Rng rng(Seed::from_number(0x70726f6265));
  for (int tries = 0; tries < kTriesPerShape && probes.size() < spec.shapes.size() + kProbes; ++tries) {
    const Dims dims = draw_dims(spec, rng, tries % 2 == 0 ? Style::kAny : Style::kAligned);
    if (inside(spec, dims)) probes.push_back(dims);
  }
  return probes;
}

}  // namespace lathe
