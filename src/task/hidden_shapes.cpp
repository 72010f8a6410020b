#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <span>

#include "task/bound_task.h"
#include "task/shape_coverage.h"
#include "task/spans.h"
#include "task/spec_parse.h"

namespace lathe {
namespace {

constexpr int kTriesPerShape = 800, kTriesToFit = 8, kTriesUnlikeScored = 40;
constexpr int kDraws = 128;  ///< of which most shapes are the one that adds the most to the others
constexpr std::size_t kMostBeside = 2;
constexpr double kSquares = 0.15, kStretched = 0.6;  // of the awkward shapes
constexpr double kBalanced = 0.35;                   // of the large ones; the others are stretched
constexpr double kAnyOfFew = 0.4;                    // of aligned shapes' extents in small ranges
constexpr double kGainOfCost = 2;                    // what a shape must add that is as large as allowed
constexpr double kAlignedLarge = 0.2;                // as far as extents were halved
constexpr double kRelated = 0.5;                     // of shapes that two extents of may be tied in
constexpr double kRelatedBeside = 0.5;
constexpr double kAlsoShort = 0.5;              // of dims beside one that is shorter than a window
constexpr double kStretchedElements = 0.25;     // of those that other shapes may have
constexpr double kMaxHiddenElements = 1 << 21;  ///< of all values together, to keep verification fast
constexpr SizeLimits kSmall = {1 << 22, 1 << 13};
constexpr std::array<std::int64_t, 7> kTiles = {4, 8, 16, 32, 64, 128, 256};
constexpr std::array<std::int64_t, 16> kPrimes = {2,  3,  5,   7,   13,  17,  31,  37,
                                                  61, 97, 127, 131, 257, 509, 521, 1021};
constexpr std::array<std::int64_t, 5> kAlignments = {2, 8, 16, 32, 64};
constexpr std::array<std::int64_t, 6> kEdges = {-2, -1, 0, 1, 1, 2};  // a tail of one is the most awkward
constexpr std::int64_t kMostAboveLow = 6;                             ///< of a tiny extent
constexpr std::int64_t kMultiples = 5;  // of a tile, of which an extent is at the edge
constexpr std::int64_t kStepsOfSmall =
    4;  // that a small range has, of which half of the extents are multiples

constexpr std::int64_t kRangeParts = 6;  // of a range, of which kernels may be wrong in one alone

enum class Style { kTileEdge, kPrime, kOdd, kTiny, kAligned, kAny, kCount };
constexpr std::array kAwkward = {Style::kTileEdge, Style::kPrime, Style::kTiny, Style::kOdd, Style::kAny};

/// A log-uniform integer.
std::int64_t log_uniform(Rng& rng, std::int64_t low, std::int64_t high) {
  const double drawn = std::log(static_cast<double>(low)) +
                       rng.uniform() * std::log(static_cast<double>(high + 1) / static_cast<double>(low));
  return std::clamp(static_cast<std::int64_t>(std::exp(drawn)), low, high);
}

/// One of ascending numbers that is no larger than `most`, or the first.
std::int64_t draw_up_to(Rng& rng, std::span<const std::int64_t> numbers, std::int64_t most) {
  const auto end = std::ranges::upper_bound(numbers, most);
  return numbers[rng.below(static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(1, end - numbers.begin())))];
}

/// One of the first multiples up to `most`.
std::int64_t draw_multiple(Rng& rng, std::int64_t of, std::int64_t most) {
  return of * rng.between(1, std::clamp<std::int64_t>(most / of, 1, kMultiples));
}

std::int64_t draw_extent(Rng& rng, const DimRange& range, Style style) {
  std::int64_t extent = log_uniform(rng, range.low, range.high);
  switch (style) {
    case Style::kTileEdge:
      extent = draw_multiple(rng, draw_up_to(rng, kTiles, range.high / 2), range.high) +
               kEdges[rng.below(kEdges.size())];
      break;
    case Style::kPrime:
      extent = draw_up_to(rng, kPrimes, range.high);
      break;
    case Style::kOdd:
      extent |= 1;
      break;
    case Style::kTiny:
      extent = rng.chance(0.5) ? range.low : range.low + rng.between(1, kMostAboveLow);
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

/// In the upper two thirds of the range, most of them in its last sixth, its end and multiples of
/// 64 among them.
std::int64_t draw_high(Rng& rng, const DimRange& range) {
  std::int64_t extent = range.high;
  const std::int64_t last = range.high - range.high / kRangeParts;
  if (rng.chance(0.75))
    extent = rng.between(std::max(range.low, rng.chance(0.5) ? last : range.high / 3), range.high);
  if (rng.chance(0.3)) extent = std::max(range.low, extent / 64 * 64);
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

bool fits(const BoundTask& task, const SizeLimits& limits) {
  return task.flops <= limits.flops && task.value_elements() <= limits.elements;
}

bool inside(const TaskSpec& spec, const Dims& dims) {
  if (!spec.where.has_value()) return true;
  const Result<std::int64_t> value = spec.where->evaluate(dims);
  return value.ok() && *value != 0;
}

/// The dims with the lowest or the highest value of one of them that the domain allows beside the
/// others, if it is soon found.
std::optional<Dims> with_end(const TaskSpec& spec, Dims dims, const std::string& name, bool lowest) {
  constexpr std::int64_t kSteps = 256;
  const DimRange& range = spec.dim_ranges.at(name);
  for (std::int64_t step = 0; step <= std::min(kSteps, range.high - range.low); ++step) {
    dims[name] = lowest ? range.low + step : range.high - step;
    if (inside(spec, dims)) return dims;
  }
  return std::nullopt;
}

std::optional<BoundTask> bind_within(const TaskSpec& spec, const Dims& dims, const SizeLimits& limits) {
  if (!inside(spec, dims)) return std::nullopt;
  Result<BoundTask> bound = lathe::bind(spec, dims);
  if (!bound.ok() || !fits(*bound, limits)) return std::nullopt;
  return *std::move(bound);
}

/// Extents of a dim that domains may tie to the others: multiples and parts of them, products and
/// quotients of two, and multiples of powers of two near what it is.
std::vector<std::int64_t> related_extents(const Dims& dims, const std::string& name) {
  constexpr std::int64_t kFactors = 16, kLongestStep = 256;
  std::vector<std::int64_t> extents;
  for (const auto& [other, extent] : dims) {
    if (other == name) continue;
    for (std::int64_t factor = 1; factor <= kFactors; ++factor) {
      extents.push_back(extent * factor);
      if (extent % factor == 0) extents.push_back(extent / factor);
    }
    for (const auto& [third, length] : dims) {
      if (third == name || third == other) continue;
      extents.push_back(extent * length);
      if (extent % length == 0) extents.push_back(extent / length);
    }
  }
  for (std::int64_t step = 2; step <= kLongestStep; step *= 2)
    for (const std::int64_t beyond : {0, 1}) extents.push_back((dims.at(name) / step + beyond) * step);
  return extents;
}

/// Brings a shape into the domain by another extent of one dim, if it can; `fixed` keeps its own.
void mend(const TaskSpec& spec, Rng& rng, Dims& dims, const std::string& fixed = {}) {
  if (inside(spec, dims)) return;
  std::vector<std::string> names = spec.dim_names;
  rng.shuffle(names);
  for (const std::string& name : names) {
    if (name == fixed) continue;
    const DimRange& range = spec.dim_ranges.at(name);
    std::vector<std::int64_t> extents = related_extents(dims, name);
    rng.shuffle(extents);
    Dims mended = dims;
    for (const std::int64_t extent : extents) {
      mended[name] = extent;
      if (extent < range.low || extent > range.high || !inside(spec, mended)) continue;
      dims = std::move(mended);
      return;
    }
  }
}

/// An extent that is equal to another, one more or less, or a proper multiple or part of it, as
/// long as the range allows; else 0.
std::int64_t draw_related(Rng& rng, const DimRange& range, std::int64_t to) {
  constexpr std::array<std::int64_t, 6> kFactors = {2, 2, 3, 4, 5, 8};
  const std::int64_t factor = kFactors[rng.below(kFactors.size())];
  std::int64_t extent = to;
  switch (rng.below(6)) {
    case 0:
      break;
    case 1:
      extent = to + 1;
      break;
    case 2:
      extent = to - 1;
      break;
    case 3:
      extent = to % factor == 0 ? to / factor : 0;
      break;
    default:
      extent = to * factor;
  }
  return extent < range.low || extent > range.high ? 0 : extent;
}

/// Ties the extent of one dim to another's.
void relate(const TaskSpec& spec, Rng& rng, Dims& dims) {
  const std::string& name = spec.dim_names[rng.below(spec.dim_names.size())];
  const std::string& other = spec.dim_names[rng.below(spec.dim_names.size())];
  const std::int64_t extent = draw_related(rng, spec.dim_ranges.at(name), dims.at(other));
  if (extent > 0) dims[name] = extent;
}

/// Makes a long extent a multiple of another, where that leaves the domain.
void shorten_to_multiple(const TaskSpec& spec, Rng& rng, Dims& dims) {
  const std::string& name = spec.dim_names[rng.below(spec.dim_names.size())];
  const std::int64_t of = dims.at(spec.dim_names[rng.below(spec.dim_names.size())]);
  Dims tied = dims;
  tied[name] = dims.at(name) / of * of;
  if (tied[name] >= 2 * of && tied[name] >= spec.dim_ranges.at(name).low && inside(spec, tied))
    dims = std::move(tied);
}

/// Dims that a shape keeps as long as they are while the others shrink, the dearest first.
using Kept = std::vector<std::string>;

/// In which order a verification's shapes are long in one dim after the other, so that each dim is
/// so in one of them where they suffice.
struct Rota {
  std::vector<std::string> dims;
  std::size_t open = 0;  ///< the first ones: no scored shape takes them to their range's end

  /// Empty once each has had its turn.
  std::string turn(int i) const {
    const auto at = static_cast<std::size_t>(i);
    return at < dims.size() && dims.size() > 1 ? dims[at] : std::string();
  }
  const std::string& last() const { return dims[open > 0 ? open - 1 : dims.size() - 1]; }
};

Rota draw_rota(const TaskSpec& spec, const Seed& seed) {
  Rota rota{spec.dim_names};
  Rng(seed.derive("rota")).shuffle(rota.dims);
  // With iterators: clang 14 does not know libstdc++'s subranges.
  const auto closed = std::stable_partition(rota.dims.begin(), rota.dims.end(), [&](const std::string& name) {
    return std::ranges::none_of(spec.shapes, [&](const NamedShape& shape) {
      return shape.dims.at(name) == spec.dim_ranges.at(name).high;
    });
  });
  rota.open = static_cast<std::size_t>(closed - rota.dims.begin());
  return rota;
}

/// A tile in large ranges, and in small ones what they have several multiples of.
std::int64_t small_step(const DimRange& range, std::int64_t tile) {
  const auto most = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(range.high)));
  return std::min(tile, std::max<std::int64_t>(1, most / kStepsOfSmall));
}

/// The dims that can shrink, to a step of a tile at least, and are about as long as the longest.
std::vector<std::string> longest(const TaskSpec& spec, const Dims& dims, const Kept& kept,
                                 std::int64_t tile) {
  const auto can_shrink = [&](const auto& dim) {
    const DimRange& range = spec.dim_ranges.at(dim.first);
    return dim.second > std::max(range.low, small_step(range, tile)) &&
           std::ranges::count(kept, dim.first) == 0;
  };
  std::int64_t length = 0;
  for (const auto& dim : dims)
    if (can_shrink(dim)) length = std::max(length, dim.second);
  std::vector<std::string> names;
  for (const auto& dim : dims)
    if (can_shrink(dim) && 2 * dim.second > length) names.push_back(dim.first);
  return names;
}

/// Halves long dims, and takes some multiple of `tile` below, until the shape is within the limits;
/// those that are kept only where the others do not suffice, the dearest last.
Dims shrink(const TaskSpec& spec, Rng& rng, Dims dims, const SizeLimits& limits, Kept kept,
            std::int64_t tile) {
  for (int round = 0; round < 64; ++round) {
    const Result<BoundTask> bound = lathe::bind(spec, dims);
    if (!bound.ok() || fits(*bound, limits)) return dims;
    std::vector<std::string> names = longest(spec, dims, kept, tile);
    for (; names.empty() && !kept.empty(); names = longest(spec, dims, kept, tile)) kept.pop_back();
    if (names.empty()) names = longest(spec, dims, {}, 1);
    if (names.empty()) return dims;
    const std::string& name = names[rng.below(names.size())];
    const std::int64_t half = dims.at(name) / 2, most = half / tile;
    const std::int64_t steps = tile > 1 ? rng.between((most + 1) / 2, most) : most;
    dims[name] = std::max(spec.dim_ranges.at(name).low, most == 0 ? half : steps * tile);
    mend(spec, rng, dims, name);
  }
  return dims;
}

/// Shapes that are long in one dim take no more time than others.
SizeLimits limits_beside_long(const SizeLimits& limits) {
  return {limits.flops, kStretchedElements * limits.elements};
}

/// The first of several draws that is within the limits, or what the last of them shrinks to: an
/// extent that was halved is hardly ever a prime or at the edge of a tile.
template <class Draw>
Dims draw_within(const TaskSpec& spec, Rng& rng, const SizeLimits& limits, const Kept& kept,
                 std::int64_t tile, Draw&& draw) {
  Dims dims;
  for (int tries = 0; tries < kTriesToFit && !(tries > 0 && bind_within(spec, dims, limits)); ++tries) {
    dims = draw();
    mend(spec, rng, dims);
  }
  return shrink(spec, rng, std::move(dims), limits, kept, tile);
}

/// Tile edges, primes, ones and odd extents; some shapes are squares, as far as ranges allow, and
/// some have `favoured` in the upper part of its range.
Dims draw_awkward(const TaskSpec& spec, Rng& rng, Style style, const std::string& favoured,
                  const SizeLimits& limits) {
  const double kind = rng.uniform();
  const bool square = kind < kSquares;
  const bool stretched = !square && !favoured.empty() && kind < kSquares + kStretched;
  Kept kept;
  if (stretched) kept.push_back(favoured);
  Dims dims = draw_within(spec, rng, stretched ? limits_beside_long(limits) : limits, kept, 1, [&] {
    Dims drawn = draw_dims(spec, rng, style);
    const std::int64_t side =
        std::ranges::max_element(drawn, {}, [](const auto& dim) { return dim.second; })->second;
    for (auto& [name, extent] : drawn) {
      const DimRange& range = spec.dim_ranges.at(name);
      if (square) extent = std::clamp(side, range.low, range.high);
      if (stretched && name == favoured) extent = draw_high(rng, range);
    }
    if (!square && !stretched && rng.chance(kRelated)) relate(spec, rng, drawn);
    return drawn;
  });
  if (stretched && rng.chance(kRelated)) shorten_to_multiple(spec, rng, dims);
  return dims;
}

/// Every extent a multiple of one tile; in small ranges of the largest power of two, of one that
/// has several multiples there, or any, which leaves room for the others.
Dims draw_aligned(const TaskSpec& spec, Rng& rng, const std::string& favoured, const SizeLimits& limits) {
  constexpr std::array<std::int64_t, 2> kSharedTiles = {64, 128};
  const std::int64_t tile = kSharedTiles[rng.below(kSharedTiles.size())];
  Kept kept;
  if (!favoured.empty() && rng.chance(kStretched)) kept.push_back(favoured);
  return draw_within(spec, rng, kept.empty() ? limits : limits_beside_long(limits), kept, tile, [&] {
    Dims dims;
    for (const std::string& name : spec.dim_names) {
      const DimRange& range = spec.dim_ranges.at(name);
      const auto most = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(range.high)));
      std::int64_t step = rng.chance(0.5) ? small_step(range, tile) : std::min(tile, most);
      if (most < tile / 2 && rng.chance(kAnyOfFew)) step = 1;
      std::int64_t least = (range.low + step - 1) / step, last = std::max(least, range.high / step);
      if (std::ranges::count(kept, name) > 0) least = std::max(least, (last + 1) / 2);
      const bool few = last <= kStepsOfSmall;
      dims[name] =
          std::min(range.high, step * (few ? rng.between(least, last) : log_uniform(rng, least, last)));
    }
    return dims;
  });
}

double volume(const Dims& dims) {
  double product = 1;
  for (const auto& [name, extent] : dims) product *= static_cast<double>(extent);
  return product;
}

/// By what a kernel could take it for a scored one: the number of elements, or an extent of a wide
/// range. In a small one there are too few others.
bool resembles_scored(const TaskSpec& spec, const Dims& dims) {
  constexpr std::int64_t kWide = 1024;
  return std::ranges::any_of(spec.shapes, [&](const NamedShape& shape) {
    return volume(shape.dims) == volume(dims) || std::ranges::any_of(dims, [&](const auto& dim) {
             return spec.dim_ranges.at(dim.first).high >= kWide && shape.dims.at(dim.first) == dim.second;
           });
  });
}

Dims draw_high(const TaskSpec& spec, Rng& rng) {
  Dims dims;
  for (const std::string& name : spec.dim_names) dims[name] = draw_high(rng, spec.dim_ranges.at(name));
  return dims;
}

/// The share of what the limits allow.
double cost(const BoundTask& task, const SizeLimits& limits) {
  return std::max(task.flops / limits.flops, task.value_elements() / limits.elements);
}

/// Keeps the one of several shapes that adds the most to those before, at little cost.
class Choice {
 public:
  Choice(const ShapeCoverage& coverage, int draws) : coverage_(coverage), draws_(draws) {}

  void offer(const Dims& dims, double costs = 0) {
    const double gain = coverage_.gain(dims) - kGainOfCost * costs;
    if (!best_ || gain > most_) best_ = dims, most_ = gain;
    ++offered_;
  }
  bool done() const { return offered_ == draws_; }
  const std::optional<Dims>& best() const { return best_; }

 private:
  const ShapeCoverage& coverage_;
  int draws_;
  std::optional<Dims> best_;
  double most_ = 0;
  int offered_ = 0;
};

ShapeCoverage coverage_of(const TaskSpec& spec, const Seed& seed, std::span<const Dims> shapes) {
  ShapeCoverage coverage(spec, seed);
  for (const Dims& dims : shapes) coverage.add(dims);
  return coverage;
}

}  // namespace

std::vector<Dims> draw_hidden_shapes(const TaskSpec& spec, const Seed& seed, int count, double max_flops) {
  std::vector<Dims> shapes;
  if (spec.fixed || spec.dim_names.empty()) return shapes;
  std::set<Dims> seen;
  for (const NamedShape& shape : spec.shapes) seen.insert(shape.dims);
  const SizeLimits limits = hidden_limits(max_flops);
  const Rota rota = draw_rota(spec, seed);
  ShapeCoverage coverage(spec, seed);
  for (int i = 0; i < count; ++i) {
    Rng rng(seed.derive("hidden shape", static_cast<std::uint64_t>(i)));
    const std::string favoured = rota.turn(i);
    const bool is_aligned = i % 3 == 1;
    Choice choice(coverage, is_aligned ? 1 : kDraws);
    for (int tries = 0; tries < kTriesPerShape && !choice.done(); ++tries) {
      if (tries >= kTriesPerShape / 4 && choice.best()) break;
      const bool desperate = tries >= kTriesPerShape / 4;
      Style style = kAwkward[rng.below(kAwkward.size())];
      if (desperate) style = rng.chance(0.5) ? Style::kAligned : Style::kAny;
      const bool aligned = is_aligned && !desperate;
      Dims dims = aligned ? draw_aligned(spec, rng, favoured, limits)
                          : draw_awkward(spec, rng, style, favoured, limits);
      for (int again = 0; aligned && again < kTriesUnlikeScored && resembles_scored(spec, dims); ++again)
        dims = draw_aligned(spec, rng, favoured, limits);
      if (seen.contains(dims)) continue;
      if (const auto task = bind_within(spec, dims, limits)) choice.offer(dims, cost(*task, limits));
    }
    if (!choice.best()) continue;
    shapes.push_back(*choice.best());
    seen.insert(shapes.back());
    coverage.add(shapes.back());
  }
  return shapes;
}

std::optional<Dims> draw_large_shape(const TaskSpec& spec, const Seed& seed, const SizeLimits& limits,
                                     double hidden_flops, std::span<const Dims> others) {
  if (spec.fixed || spec.dim_names.empty()) return std::nullopt;
  const ShapeCoverage coverage = coverage_of(spec, seed, others);
  const Rota rota = draw_rota(spec, seed);
  Rng rng(seed.derive("large shape"));
  const bool aligned = rng.chance(kAlignedLarge);
  Choice choice(coverage, aligned ? 1 : kDraws);
  for (int tries = 0; tries < kTriesPerShape && !choice.done(); ++tries) {
    if (tries >= kDraws && choice.best()) break;
    Kept kept = {rota.last(), rota.dims[rng.below(rota.dims.size())]};
    if (rota.open != 1 && rng.chance(kBalanced)) kept.clear();
    Dims high = draw_high(spec, rng);
    mend(spec, rng, high);
    Dims dims = shrink(spec, rng, high, limits, kept, aligned ? 64 : 1);
    if (!aligned && rng.chance(kRelated)) shorten_to_multiple(spec, rng, dims);
    const auto task = bind_within(spec, dims, limits);
    if (!task) continue;
    if (task->value_elements() > kMaxHiddenElements || task->flops > hidden_flops) choice.offer(dims);
  }
  return choice.best();
}

SizeLimits hidden_limits(double max_flops) { return {max_flops, kMaxHiddenElements}; }

std::vector<Dims> draw_shapes_beside(const TaskSpec& spec, const Seed& seed, const SizeLimits& limits,
                                     std::span<const Dims> others) {
  constexpr std::array kStyles = {Style::kTileEdge, Style::kPrime,   Style::kOdd,
                                  Style::kTiny,     Style::kAligned, Style::kAny};
  std::vector<Dims> shapes;
  if (spec.fixed || spec.dim_names.size() < 2 || spec.shapes.empty()) return shapes;
  Rng rng(seed.derive("shapes beside"));
  ShapeCoverage coverage = coverage_of(spec, seed, others);
  std::vector<std::string> names = spec.dim_names;
  rng.shuffle(names);
  const auto offer = [&](const std::string& name, Dims dims, Choice& choice) {
    const std::int64_t scored = dims.at(name);
    // Drawn again from half of the range where it is too long, so that it is not always short.
    for (DimRange range = spec.dim_ranges.at(name); range.high > range.low; range.high /= 2) {
      dims[name] = draw_extent(rng, range, kStyles[rng.below(kStyles.size())]);
      if (rng.chance(kRelatedBeside)) {
        const std::string& other = spec.dim_names[rng.below(spec.dim_names.size())];
        const std::int64_t related = other == name ? 0 : draw_related(rng, range, dims.at(other));
        if (related > 0) dims[name] = related;
      }
      const auto task = dims[name] == scored ? std::nullopt : bind_within(spec, dims, limits);
      if (task) return choice.offer(dims, cost(*task, limits));
    }
  };
  for (const std::string& name : names) {
    if (shapes.size() == kMostBeside) break;
    Choice choice(coverage, kDraws);
    for (int tries = 0; tries < kTriesPerShape / 4 && !choice.done(); ++tries)
      offer(name, spec.shapes[rng.below(spec.shapes.size())].dims, choice);
    if (!choice.best()) continue;
    shapes.push_back(*choice.best());
    coverage.add(shapes.back());
  }
  return shapes;
}

std::vector<Dims> draw_small_shapes(const TaskSpec& spec, const Seed& seed, int count,
                                    std::span<const Dims> others) {
  std::vector<Dims> shapes;
  if (spec.fixed || spec.dim_names.empty()) return shapes;
  std::set<Dims> seen(others.begin(), others.end());
  for (const NamedShape& shape : spec.shapes) seen.insert(shape.dims);
  ShapeCoverage coverage = coverage_of(spec, seed.derive("small shapes"), others);
  for (int i = 0; i < count; ++i) {
    Rng rng(seed.derive("small shape", static_cast<std::uint64_t>(i)));
    Choice choice(coverage, kDraws);
    for (int tries = 0; tries < kTriesPerShape / 4 && !choice.done(); ++tries) {
      const Dims dims = draw_awkward(spec, rng, kAwkward[rng.below(kAwkward.size())], {}, kSmall);
      if (!seen.contains(dims) && bind_within(spec, dims, kSmall)) choice.offer(dims);
    }
    if (!choice.best()) break;
    shapes.push_back(*choice.best());
    seen.insert(shapes.back());
    coverage.add(shapes.back());
  }
  return shapes;
}

std::optional<Dims> draw_short_shape(const TaskSpec& spec, const Seed& seed, const SizeLimits& limits) {
  if (spec.fixed || spec.shapes.empty()) return std::nullopt;
  auto spans = longest_spans(spec);
  std::erase_if(spans, [&](const auto& span) {
    const auto range = spec.dim_ranges.find(span.first);
    if (range == spec.dim_ranges.end()) return true;
    const std::int64_t low = range->second.low, high = range->second.high;
    return low == high || low + 1 >= span.second;
  });
  if (spans.empty()) return std::nullopt;
  Rng rng(seed.derive("short shape"));
  for (int tries = 0; tries < kTriesPerShape; ++tries) {
    Dims dims = spec.shapes[rng.below(spec.shapes.size())].dims;
    std::size_t until_certain = rng.below(spans.size());
    for (const auto& [name, span] : spans) {
      if (until_certain-- != 0 && !rng.chance(kAlsoShort)) continue;
      const DimRange& range = spec.dim_ranges.at(name);
      dims[name] = rng.between(range.low + 1, std::min(range.high, span - 1));
    }
    mend(spec, rng, dims);
    dims = shrink(spec, rng, std::move(dims), limits, {}, 1);
    const bool is_short = std::ranges::any_of(spans, [&](const auto& span) {
      const std::int64_t extent = dims.at(span.first);
      return extent > spec.dim_ranges.at(span.first).low && extent < span.second;
    });
    if (is_short && bind_within(spec, dims, limits)) return dims;
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
    if (bind_within(spec, dims, limits)) return dims;
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
  const Dims scored = probes.front();
  for (const std::string& name : spec.dim_names)
    for (const bool lowest : {true, false})
      if (auto dims = with_end(spec, scored, name, lowest)) probes.push_back(*std::move(dims));
  return probes;
}

}  // namespace lathe
