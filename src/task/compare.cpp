#include "task/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "base/function_versions.h"
#include "base/random.h"

namespace lathe {
namespace {

constexpr std::size_t kLanes = 8;
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Masks = std::int64_t __attribute__((vector_size(kLanes * sizeof(std::int64_t))));

/// A candidate's RMS error may be this many times the naive build's.
constexpr double kRmsFactor = 8;
/// Smaller tiles are too noisy for an RMS check, but for elements whose errors are independent.
constexpr std::size_t kMinRmsCount = 512;
constexpr std::size_t kMinIndependentCount = 64;
/// So few values have an RMS error that luck makes larger or smaller, the naive build's too: of
/// eight the limit is five times what it is of many, of 32 twice.
constexpr double kFewestValues = 8, kLuck = 32;
/// The naive build's RMS counts as at least this share of the bound's RMS, because it may be
/// accurate by luck where elements share a sum or values have a structure. On single rows a running
/// sum in another order reaches a third of the bound where the naive build reaches a hundredth, so
/// half of the bound is allowed there.
constexpr double kBoundShare = 1.0 / 16;

/// Elements with sums of their own leave nothing to luck, and of long sums half of the bound would
/// be far above what TF32 or bf16 cost: there the RMS counts as at least this many unit roundoffs
/// of the values: eight times as many are what products of split numbers (3xTF32) may lose.
constexpr double kOwnRoundoffs = 2;
/// As many of a convolution's, but no more than a share of the bound, are what Winograd's F(6x6,
/// 3x3) loses over 256 channels; where elements share sums of what products gave, more than what a
/// serial softmax does. TF32 loses thousands. So does it behind an exponential or a division, which
/// lose a hundred themselves.
constexpr double kConvolutionRoundoffs = 16;
constexpr double kSharedRoundoffs = 32;

double roundoffs_of(Sums sums) {
  switch (sums) {
    case Sums::kUnknown:
    case Sums::kNone:
      return 0;
    case Sums::kShared:
      return kSharedRoundoffs;
    case Sums::kAmplified:
    case Sums::kJumping:
    case Sums::kConvolution:
      return kConvolutionRoundoffs;
    case Sums::kOwn:
      return kOwnRoundoffs;
  }
  return 0;
}

std::size_t least_count(Sums sums) { return roundoffs_of(sums) > 0 ? kMinIndependentCount : kMinRmsCount; }

/// One tile's elements, decoded.
struct Tile {
  std::size_t begin = 0;
  std::span<const double> want;
  std::span<const double> err;
  std::span<const double> got;
};

/// Calls `visit` on each tile of kRmsTile elements, decoded into a buffer that fits the L1 cache.
template <class Visit>
void for_tiles(const Expected& expected, std::span<const std::byte> got, Visit visit,
               TileChoice choice = {}) {
  const DTypeInfo& type = info(expected.dtype);
  const std::size_t count = expected.value.data.size();
  assert(got.size() == expected.bytes());
  std::array<double, kRmsTile> decoded;
  static constexpr std::array<double, kRmsTile> kNoError{};
  for (std::size_t begin = 0; begin < count; begin += kRmsTile) {
    if (!choice.includes(begin / kRmsTile)) continue;
    const std::size_t size = std::min<std::size_t>(kRmsTile, count - begin);
    const std::span<double> values(decoded.data(), size);
    expected.for_ranges(begin, size, [&](const KnownRange& range) {
      type.decode(got.data() + range.element * type.bytes, values.subspan(range.value - begin, range.count));
    });
    const std::span<const double> err = expected.value.err.empty()
                                            ? std::span(kNoError).first(size)
                                            : std::span(expected.value.err).subspan(begin, size);
    visit(Tile{begin, std::span(expected.value.data).subspan(begin, size), err, values});
  }
}

ErrorSummary summarize_errors(const Tile& tile, double ratio) {
  return lathe::summarize_errors(tile.want.data(), tile.err.data(), tile.got.data(), tile.want.size(), ratio);
}

/// The same for tiles with non-finite values, which are skipped: the NaN and infinity masks are
/// compared elsewhere.
double finite_square_sum(const Tile& tile) {
  double total = 0;
  for (std::size_t i = 0; i < tile.want.size(); ++i) {
    const double difference = tile.got[i] - tile.want[i];
    if (std::isfinite(difference) && std::isfinite(tile.err[i])) total += difference * difference;
  }
  return total;
}

double square_sum(const Tile& tile, const ErrorSummary& summary) {
  return std::isfinite(summary.square_sum) ? summary.square_sum : finite_square_sum(tile);
}

/// Where some elements may be far less exact than others, each counts by its own bound.
double weight(double bound) { return bound > 0 && std::isfinite(bound) ? 1 / bound : 0; }

bool is_weighed(Sums sums) { return sums == Sums::kAmplified || sums == Sums::kJumping; }

/// Of a tile's elements so few may be on a jump's other side: the largest errors, which say nothing
/// of the others.
constexpr std::size_t kJumpShare = 64;

/// What an RMS error is made of.
double weighed_square_sum(const Tile& tile, const ErrorSummary& summary, Sums sums) {
  if (!is_weighed(sums)) return square_sum(tile, summary);
  std::array<double, kRmsTile> squares;
  for (std::size_t i = 0; i < tile.want.size(); ++i) {
    const double difference = (tile.got[i] - tile.want[i]) * weight(tile.err[i]);
    squares[i] = std::isfinite(difference) ? difference * difference : 0;
  }
  const auto begin = squares.begin();
  auto end = begin + static_cast<std::ptrdiff_t>(tile.want.size());
  if (sums == Sums::kJumping) {
    const auto kept = end - 1 - static_cast<std::ptrdiff_t>(tile.want.size() / kJumpShare);
    std::nth_element(begin, kept, end);
    end = kept;
  }
  return std::accumulate(begin, end, 0.0);
}

/// What a kernel may lose of a narrow output beside its sums' bounds and the rounding, in units of
/// the latter: by an exponential of the output's precision, or by terms that were rounded one by
/// one.
constexpr double kBesideRounding = 1.0 / 16;

/// Looks behind the rounding to a narrow dtype, which is as coarse as what a sum over a part of its
/// terms is off by.
class RoundingCheck {
 public:
  explicit RoundingCheck(const Expected& expected)
      : errors_(expected.unrounded),
        unit_(info(expected.dtype).unit_roundoff),
        least_(info(expected.dtype).smallest_normal) {}

  void visit(const Tile& tile) {
    if (errors_.empty()) return;
    for (std::size_t i = 0; i < tile.want.size(); ++i) {
      const double want = tile.want[i], got = tile.got[i], off = std::fabs(got - want);
      const double allowed = errors_[tile.begin + i] + kBesideRounding * unit_ * std::fabs(want);
      if (!std::isfinite(off) || !std::isfinite(allowed)) continue;
      const double step = step_beside(want, got);
      const bool is_closer_to_zero = std::fabs(got) <= std::fabs(want) && got * want >= 0;
      beyond_.to_nearest |= off > step / 2 + allowed;
      beyond_.towards_zero |= off > (is_closer_to_zero ? step : 0) + allowed;
    }
  }
  BeyondRounding beyond() const { return beyond_; }

 private:
  /// The distance of the dtype's numbers above the larger magnitude.
  double step_beside(double a, double b) const {
    constexpr std::uint64_t kExponent = 0x7ff0'0000'0000'0000;
    const double magnitude = std::max({std::fabs(a), std::fabs(b), least_});
    return 2 * unit_ * std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) & kExponent);
  }

  std::span<const double> errors_;
  double unit_, least_;
  BeyondRounding beyond_;
};

/// Accumulates compare()'s report tile by tile.
class BoundCheck {
 public:
  BoundCheck(const Expected& expected, const RmsLimit* limit, bool whole)
      : largest_(info(expected.dtype).largest),
        saturates_(info(expected.dtype).saturates()),
        limit_(limit),
        whole_(whole),
        sums_(expected.sums),
        least_count_(least_count(expected.sums)),
        rounding_(expected) {}

  void visit(const Tile& tile) {
    const ErrorSummary summary = summarize_errors(tile, result_.worst_ratio);
    if (summary.outside) inspect(tile);
    if (summary.above) raise_worst(tile);
    const double sum = weighed_square_sum(tile, summary, sums_);
    total_ += sum;
    count_ += tile.want.size();
    if (limit_ == nullptr) return;
    if (!limit_->beyond_rounding) rounding_.visit(tile);
    if (tile.want.size() < least_count_) return;
    const std::size_t index = tile.begin / kRmsTile;
    const double rms = std::sqrt(sum / static_cast<double>(tile.want.size()));
    if (index < limit_->tiles.size() && rms > kRmsFactor * limit_->tiles[index] && bad_tile_ < 0) {
      bad_tile_ = static_cast<std::int64_t>(tile.begin);
    }
  }

  Comparison finish() {
    result_.rms_error = count_ == 0 ? 0 : std::sqrt(total_ / static_cast<double>(count_));
    if (result_.bad_count > 0) return fail(masks_differ_ ? "nan_mask" : "bound");
    if (limit_ != nullptr && count_ < least_count_ && least_count_ == kMinIndependentCount) {
      const double allowed = kRmsFactor * limit_->global;
      result_.few = {total_, allowed * allowed * static_cast<double>(count_),
                     static_cast<std::int64_t>(count_), sums_ == Sums::kOwn || sums_ == Sums::kConvolution};
    }
    if (limit_ != nullptr && whole_ && count_ >= least_count_ &&
        result_.rms_error > kRmsFactor * limit_->global) {
      return fail("rms");
    }
    if (bad_tile_ >= 0) {
      result_.first_bad = bad_tile_;
      return fail("tile_rms");
    }
    result_.beyond = rounding_.beyond();
    if (result_.beyond.both()) return fail("rms");
    return result_;
  }

 private:
  Comparison fail(const char* reason) {
    result_.pass = false;
    result_.reason = reason;
    return result_;
  }

  /// Accepts NaN where NaN is expected, the expected infinity, and overflow within the bound: to
  /// the largest number where the format has no infinity.
  bool special_match(double want, double err, double got) const {
    if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
    if (saturates_ && std::fabs(got) == largest_)
      return std::signbit(got) == std::signbit(want) && std::fabs(want) + err >= largest_;
    if (std::isinf(got) && std::isinf(want)) return std::signbit(got) == std::signbit(want);
    if (std::isinf(got)) return std::signbit(got) == std::signbit(want) && std::fabs(want) + err >= largest_;
    return std::isinf(want) && std::fabs(got) >= largest_ && std::signbit(got) == std::signbit(want);
  }

  void inspect(const Tile& tile) {
    for (std::size_t i = 0; i < tile.want.size(); ++i) {
      const double want = tile.want[i];
      const double got = tile.got[i];
      const bool unknown = !std::isfinite(tile.err[i]) && std::isfinite(want);
      if (unknown || std::fabs(got - want) <= tile.err[i]) continue;
      const bool special = !std::isfinite(want) || !std::isfinite(got) || std::fabs(want) > largest_;
      if (special && special_match(want, tile.err[i], got)) continue;
      masks_differ_ = masks_differ_ || special;
      if (result_.bad_count++ > 0) continue;
      result_.first_bad = static_cast<std::int64_t>(tile.begin + i);
      result_.got = got;
      result_.want = want;
    }
  }

  void raise_worst(const Tile& tile) {
    for (std::size_t i = 0; i < tile.want.size(); ++i) {
      const double error = std::fabs(tile.got[i] - tile.want[i]);
      if (!(error > 0) || !std::isfinite(error)) continue;
      result_.worst_ratio = std::max(result_.worst_ratio, tile.err[i] > 0 ? error / tile.err[i] : INFINITY);
    }
  }

  double largest_;
  bool saturates_;
  const RmsLimit* limit_;
  bool whole_;  ///< a sample has no global RMS
  Sums sums_;
  std::size_t least_count_;
  RoundingCheck rounding_;
  Comparison result_;
  bool masks_differ_ = false;
  std::int64_t bad_tile_ = -1;
  double total_ = 0;
  std::size_t count_ = 0;
};

/// Whether the int64 of a known value is what it must be, to the last bit.
bool is_same_int64(const Expected& expected, std::span<const std::byte> got, std::size_t value) {
  std::array<std::byte, sizeof(std::int64_t)> want;
  info(DType::kI64).encode(std::span(expected.value.data).subspan(value, 1), want.data());
  bool same = false;
  expected.for_ranges(value, 1, [&](const KnownRange& range) {
    same = std::memcmp(got.data() + range.element * want.size(), want.data(), want.size()) == 0;
  });
  return same;
}

/// Whole numbers are equal, but where their arguments are so near a jump that both its sides are
/// right. Doubles do not tell large ones apart.
Comparison compare_exact(const Expected& expected, std::span<const std::byte> got, TileChoice choice) {
  Comparison result;
  for_tiles(
      expected, got,
      [&](const Tile& tile) {
        for (std::size_t i = 0; i < tile.want.size(); ++i) {
          const double want = tile.want[i];
          const bool is_large = expected.dtype == DType::kI64 && std::fabs(want) > 0x1p53 && tile.err[i] == 0;
          const double error = is_large && !is_same_int64(expected, got, tile.begin + i)
                                   ? INFINITY
                                   : std::fabs(tile.got[i] - want);
          if (error == 0 || (std::isnan(want) && std::isnan(tile.got[i]))) continue;
          if (error <= tile.err[i]) {
            result.worst_ratio = std::max(result.worst_ratio, error / tile.err[i]);
            continue;
          }
          result.worst_ratio = INFINITY;
          if (result.bad_count++ > 0) continue;
          result.first_bad = static_cast<std::int64_t>(tile.begin + i);
          result.got = tile.got[i];
          result.want = want;
        }
      },
      choice);
  result.pass = result.bad_count == 0;
  if (!result.pass) result.reason = "exact";
  return result;
}

bool is_index(double index, std::size_t length) {
  return index >= 0 && index < static_cast<double>(length) && index == std::floor(index);
}

/// How far the value that an index points at is from the right one.
struct Miss {
  double off = 0;
  double allowed = 0;  ///< by the bounds of both

  double ratio() const {
    if (off == 0) return 0;
    return allowed > 0 && !std::isnan(off) ? off / allowed : INFINITY;
  }
};
constexpr Miss kNoIndex{INFINITY, 0};

/// So few misses are too few for an RMS.
constexpr double kFewMisses = 4;

/// Judges the order of values by what computing them in the best precision may cost.
class OrderCheck {
 public:
  OrderCheck(const Expected& expected, std::size_t length)
      : source_(expected.source), limit_(expected.order), length_(length) {}

  void add(const Miss& miss, std::size_t line) {
    if (!limit_.applies() || !(miss.off > 0) || !std::isfinite(miss.off)) return;
    const double share =
        miss.off / std::max(limit_.of_values * rms_beside(line), limit_.of_bounds * miss.allowed);
    squares_ += share * share;
    ++count_;
  }
  /// The RMS of the misses in units of their limit.
  double rms() const { return std::sqrt(squares_ / std::max(count_, kFewMisses)); }
  /// Of a call whose RMS may be `largest`.
  FewErrors misses(double largest) const {
    const double allowed = largest * largest;
    return {.squares = squares_,
            .allowed = allowed * count_,
            .count = static_cast<std::int64_t>(count_),
            .least_allowed = allowed * kFewMisses};
  }

 private:
  /// The RMS of as many lines' values as a tile has; computed where something is missed, which is
  /// rare.
  double rms_beside(std::size_t line) {
    const std::size_t lines = std::max<std::size_t>(1, kRmsTile / length_), group = line / lines;
    if (group == group_) return rms_;
    group_ = group;
    const std::size_t begin = group * lines * length_,
                      end = std::min(source_.data.size(), begin + lines * length_);
    double squares = 0;
    for (std::size_t i = begin; i < end; ++i)
      if (std::isfinite(source_.data[i])) squares += source_.data[i] * source_.data[i];
    return rms_ = std::sqrt(squares / static_cast<double>(end - begin));
  }

  const Value& source_;
  OrderLimit limit_;
  std::size_t length_;
  std::size_t group_ = SIZE_MAX;
  double rms_ = 0;
  double squares_ = 0;
  double count_ = 0;
};

/// Judges indices by `miss_of(tile, i)`, which knows their `line_of(element)`.
template <class LineOf, class MissOf>
Comparison compare_indices(const Expected& expected, std::span<const std::byte> got, TileChoice choice,
                           OrderCheck order, const RmsLimit* limit, LineOf line_of, MissOf miss_of) {
  Comparison result;
  for_tiles(
      expected, got,
      [&](const Tile& tile) {
        for (std::size_t i = 0; i < tile.want.size(); ++i) {
          const std::size_t line = line_of(tile.begin + i);
          const Miss miss = miss_of(tile, i, line);
          order.add(miss, line);
          const double ratio = miss.ratio();
          result.worst_ratio = std::max(result.worst_ratio, ratio);
          if (ratio <= 1 || result.bad_count++ > 0) continue;
          result.first_bad = static_cast<std::int64_t>(tile.begin + i);
          result.got = tile.got[i];
          result.want = tile.want[i];
        }
      },
      choice);
  result.rms_error = order.rms();
  const double largest_rms = std::max(1.0, limit == nullptr ? 0 : kRmsFactor * limit->global);
  const bool exact_enough = limit == nullptr || result.rms_error <= largest_rms;
  if (limit != nullptr) result.few = order.misses(largest_rms);
  result.pass = result.bad_count == 0 && exact_enough;
  if (!exact_enough) result.reason = "rms";
  if (result.bad_count > 0) result.reason = expected.compare == CompareKind::kArgmax ? "argmax" : "argsort";
  return result;
}

Comparison compare_argmax(const Expected& expected, std::span<const std::byte> got, const RmsLimit* limit,
                          TileChoice choice) {
  const Value& source = expected.source;
  const std::size_t length =
      expected.value.data.empty() ? 0 : source.data.size() / expected.value.data.size();
  const auto line_of = [](std::size_t element) { return element; };
  const auto miss_of = [&](const Tile& tile, std::size_t i, std::size_t line) {
    if (!is_index(tile.got[i], length)) return kNoIndex;
    const std::size_t at = line * length + static_cast<std::size_t>(tile.got[i]);
    const std::size_t want = line * length + static_cast<std::size_t>(tile.want[i]);
    if (at == want) return Miss{};
    const double below = source.data[want] - source.data[at];
    return Miss{below <= 0 ? 0 : below, source.error_at(at) + source.error_at(want)};
  };
  return compare_indices(expected, got, choice, {expected, length}, limit, line_of, miss_of);
}

/// Ranks whose values are those of the line in order, and distinct indices, make a permutation that
/// sorts; of a sample, what is looked at is part of one.
Comparison compare_argsort(const Expected& expected, std::span<const std::byte> got, const RmsLimit* limit,
                           TileChoice choice) {
  const Value& source = expected.source;
  const std::size_t lines = expected.value.data.size() / expected.line_length;
  const std::size_t length = lines == 0 ? 0 : source.data.size() / lines;
  std::vector<bool> taken(source.data.size());
  const auto line_of = [&](std::size_t element) {
    const std::size_t stride = expected.line_stride;
    return element / (expected.line_length * stride) * stride + element % stride;
  };
  const auto miss_of = [&](const Tile& tile, std::size_t i, std::size_t line) {
    if (!is_index(tile.got[i], length)) return kNoIndex;
    const std::size_t at = line * length + static_cast<std::size_t>(tile.got[i]);
    if (taken[at]) return kNoIndex;
    taken[at] = true;
    const double a = source.data[at], b = source.data[line * length + static_cast<std::size_t>(tile.want[i])];
    if (a == b || (std::isnan(a) && std::isnan(b))) return Miss{};
    return Miss{std::fabs(a - b), source.error_at(at) + tile.err[i]};
  };
  return compare_indices(expected, got, choice, {expected, length}, limit, line_of, miss_of);
}

Comparison compare_tiles(const Expected& expected, std::span<const std::byte> got, const RmsLimit* limit,
                         TileChoice choice) {
  if (expected.compare == CompareKind::kExact) return compare_exact(expected, got, choice);
  if (expected.compare == CompareKind::kArgmax) return compare_argmax(expected, got, limit, choice);
  if (expected.compare == CompareKind::kArgsort) return compare_argsort(expected, got, limit, choice);
  BoundCheck check(expected, limit, choice.fraction >= 1);
  for_tiles(
      expected, got, [&](const Tile& tile) { check.visit(tile); }, choice);
  return check.finish();
}

}  // namespace

LATHE_VERSIONS ErrorSummary summarize_errors(const double* want, const double* tolerance, const double* got,
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
    const Doubles counted = e < Doubles{} + INFINITY ? difference : Doubles{};
    squares += counted * counted;
  }
  ErrorSummary summary;
  for (; i < size; ++i) {
    const double magnitude = std::fabs(got[i] - want[i]);
    summary.outside |= !(magnitude <= tolerance[i]);
    summary.above |= !(magnitude <= ratio * tolerance[i]);
    if (tolerance[i] < INFINITY) summary.square_sum += magnitude * magnitude;
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    summary.outside |= inside[lane] == 0;
    summary.above |= below[lane] == 0;
    summary.square_sum += squares[lane];
  }
  return summary;
}

FewErrors& FewErrors::operator+=(const FewErrors& other) {
  squares += other.squares;
  allowed += other.allowed;
  independent = other.count > 0 ? other.independent : independent;
  least_allowed = std::max(least_allowed, other.least_allowed);
  count += other.count;
  return *this;
}

BeyondRounding& BeyondRounding::operator|=(const BeyondRounding& other) {
  to_nearest |= other.to_nearest;
  towards_zero |= other.towards_zero;
  return *this;
}

bool FewErrors::pass() const {
  if (least_allowed > 0) return squares <= std::max(allowed, least_allowed);
  if (count >= static_cast<std::int64_t>(kMinIndependentCount)) return squares <= allowed;
  const auto values = static_cast<double>(count);
  const double luck = 1 + kLuck / std::max(1.0, values);
  return !independent || values < kFewestValues || squares <= luck * luck * allowed;
}

bool TileChoice::includes(std::size_t tile) const {
  return fraction >= 1 || Rng(Seed::from_number(secret).derive("tile", tile)).chance(fraction);
}

Comparison compare(const Expected& expected, std::span<const std::byte> got, const RmsLimit* limit) {
  return compare_tiles(expected, got, limit, {});
}

Comparison compare_sample(const Expected& expected, std::span<const std::byte> got, const TileChoice& choice,
                          const RmsLimit* limit) {
  return compare_tiles(expected, got, limit, choice);
}

RmsLimit measure_rms(const Expected& expected, std::span<const std::byte> got) {
  if (expected.compare == CompareKind::kArgmax || expected.compare == CompareKind::kArgsort)
    return {compare_tiles(expected, got, nullptr, {}).rms_error, {}};
  struct Squares {
    double errors = 0;
    double values = 0;
    double bounds = 0;
    double count = 0;
  };
  std::vector<Squares> tiles;
  Squares all;
  const double rounding = info(expected.dtype).unit_roundoff;
  const double accumulator = expected.dtype == DType::kF64 ? rounding : info(DType::kF32).unit_roundoff;
  const double of_values = std::max(rounding, roundoffs_of(expected.sums) * accumulator);
  RoundingCheck rounded(expected);
  for_tiles(expected, got, [&](const Tile& tile) {
    Squares sums{weighed_square_sum(tile, summarize_errors(tile, 1), expected.sums), 0, 0,
                 static_cast<double>(tile.want.size())};
    for (std::size_t i = 0; i < tile.want.size(); ++i) {
      if (!std::isfinite(tile.want[i])) continue;
      const double scale = is_weighed(expected.sums) ? weight(tile.err[i]) : 1;
      sums.values += tile.want[i] * tile.want[i] * scale * scale;
      if (std::isfinite(tile.err[i])) sums.bounds += tile.err[i] * tile.err[i] * scale * scale;
    }
    rounded.visit(tile);
    all.errors += sums.errors;
    all.values += sums.values;
    all.bounds += sums.bounds;
    all.count += sums.count;
    tiles.push_back(sums);
  });
  // Errors within a tile are correlated (one sum serves a row), so the naive build may be accurate
  // in a tile by luck. Each tile's limit is therefore at least the share of its bound that the
  // naive build reaches over the whole output.
  const double reached = all.bounds > 0 ? all.errors / all.bounds : 0;
  const auto least_of = [&](const Squares& sums) {
    const double by_value = of_values * of_values * sums.values;
    const double by_bound = kBoundShare * kBoundShare * sums.bounds;
    switch (expected.sums) {
      case Sums::kUnknown:
        return std::max(by_bound, by_value);
      case Sums::kNone:
        return std::max(sums.bounds / (kRmsFactor * kRmsFactor), by_value);
      case Sums::kShared:
      case Sums::kAmplified:
      case Sums::kJumping:
      case Sums::kConvolution:
        return std::max(std::min(by_bound, by_value), rounding * rounding * sums.values);
      case Sums::kOwn:
        break;
    }
    return by_value;
  };
  const auto limit_of = [&](const Squares& sums) {
    return std::sqrt(std::max({sums.errors, reached * sums.bounds, least_of(sums)}) /
                     std::max(1.0, sums.count));
  };
  RmsLimit limit;
  for (const Squares& sums : tiles) limit.tiles.push_back(limit_of(sums));
  limit.global = limit_of(all);
  limit.beyond_rounding = rounded.beyond().both();
  return limit;
}

}  // namespace lathe
