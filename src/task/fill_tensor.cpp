#include "task/fill_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

namespace lathe {
namespace {

using Request = FillRequest;

constexpr std::size_t kChunk = 4096;
constexpr std::size_t kMinRow = 16;
constexpr std::size_t kPartsOfRow = 8;
constexpr std::size_t kManyMatrices = 4;
constexpr std::size_t kFewRows = 8;
constexpr std::uint64_t kDrawOfTensor = std::uint64_t{1} << 40;  // beyond those of its rows

/// A tensor seen as rows along its last axis; short last axes are merged with those before them.
struct Rows {
  std::size_t count = 1;
  std::size_t length = 1;
};

Rows rows_of(const Shape& shape, std::size_t min_length) {
  Rows rows;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const auto extent = static_cast<std::size_t>(shape[axis]);
    if (axis + 1 == shape.size() || rows.length < min_length) {
      rows.length *= extent;
    } else {
      rows.count *= extent;
    }
  }
  return rows;
}

/// A single row at times as parts, so that a vector is not of one kind alone.
Rows rows_or_parts(const Request& request) {
  const Rows rows = rows_of(request.shape, kMinRow);
  if (rows.count > 1 || (request.row_random.bits(kDrawOfTensor) & 1) == 0) return rows;
  return {kPartsOfRow, rows.length / kPartsOfRow + 1};
}

/// Encodes `value(i)` for every element, chunk by chunk.
template <class Fill>
void write(const Request& request, HostTensor& out, Fill fill) {
  const DTypeInfo& type = info(request.decl.dtype);
  const auto count = static_cast<std::size_t>(element_count(request.shape));
  std::array<double, kChunk> chunk;
  for (std::size_t begin = 0; begin < count; begin += kChunk) {
    const std::size_t size = std::min(kChunk, count - begin);
    fill(begin, std::span<double>(chunk.data(), size));
    if (request.decl.generator.bounded) {
      for (double& x : std::span(chunk.data(), size)) {
        x = std::clamp(x, request.decl.generator.low, request.decl.generator.high);
      }
    }
    type.encode(std::span<const double>(chunk.data(), size), out.bytes.data() + begin * type.bytes);
  }
}

/// Encodes `value(i, row, column)` for every element; `start(row)` prepares each row.
template <class Start, class Element>
void write_rows(const Request& request, HostTensor& out, const Rows& rows, Start start, Element element) {
  write(request, out, [&](std::size_t begin, std::span<double> chunk) {
    for (std::size_t i = 0; i < chunk.size();) {
      const std::size_t row = (begin + i) / rows.length;
      const std::size_t column = (begin + i) % rows.length;
      const std::size_t run = std::min(chunk.size() - i, rows.length - column);
      const auto state = start(row);
      for (std::size_t k = 0; k < run; ++k) chunk[i + k] = element(state, begin + i + k, row, column + k);
      i += run;
    }
  });
}

template <class Element>
void write_elements(const Request& request, HostTensor& out, Element element) {
  write(request, out, [&](std::size_t begin, std::span<double> chunk) {
    for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = element(begin + i);
  });
}

struct RowScale {
  double shift;
  double scale;
};

void fill_normal(const Request& request, HostTensor& out) {
  const Generator& gen = request.decl.generator;
  write_rows(
      request, out, rows_of(request.shape, kMinRow),
      [&](std::size_t row) {
        const double scale = gen.scale * std::exp2(2 * request.row_random.uniform(2 * row) - 1);
        return RowScale{gen.mean + gen.scale * (request.row_random.uniform(2 * row + 1) - 0.5), scale};
      },
      [&](const RowScale& row, std::size_t i, std::size_t, std::size_t) {
        return row.shift + row.scale * request.random.normal(i);
      });
}

/// One value in 64 is scaled by 64.
void fill_heavy_tail(const Request& request, HostTensor& out) {
  const Generator& gen = request.decl.generator;
  write_elements(request, out, [&](std::size_t i) {
    const double scale = (request.row_random.bits(i) & 63) == 0 ? 8 * gen.scale : gen.scale / 8;
    return gen.mean + scale * request.random.normal(i);
  });
}

/// From here on, whole numbers are none that every graph takes.
constexpr double kWideWhole = 0x1p24;

/// A place among `length`: the first, the last and those about a multiple of 32 more often than
/// chance has it, where kernels begin, end and go on; most often the ends where `few` rows have
/// one.
std::size_t place_in_row(std::size_t length, std::uint64_t draw, bool few) {
  constexpr std::size_t kStep = 32;
  const std::size_t any = (draw >> 4) % length, edge = any / kStep * kStep;
  constexpr std::array kPlaces = {0, 0, 1, 1, 1, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4};
  constexpr std::array kPlacesOfFew = {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 4, 4, 4};
  switch ((few ? kPlacesOfFew : kPlaces)[draw & 15]) {
    case 0:
      return 0;
    case 1:
      return length - 1;
    case 2:
      return edge;
    case 3:
      return std::min(edge + kStep, length) - 1;
    default:
      return any;
  }
}

/// What a row of a single value has there, and elsewhere.
struct OneHot {
  double background = 0;
  double spike = 1;
  bool is_class = false;    ///< whatever the distribution, each row has one value, anywhere
  bool may_be_zero = true;  ///< the row may have no such value
};

/// Where the request asks for rows of zeros, a quarter of the tensors of one row is one, and of the
/// others one row at least; an eighth of the matrices in a tensor of more axes, of several at least
/// one, has no other rows.
void fill_one_hot(const Request& request, HostTensor& out, const OneHot& values) {
  struct Row {
    std::size_t hot;
    bool zero;
  };
  const Generator& gen = request.decl.generator;
  const Rows rows = rows_of(request.shape, 1);
  const bool signs = info(request.decl.dtype).is_float && !(gen.bounded && gen.low >= 0);
  const bool zeros =
      request.reach.zero_rows && values.may_be_zero && (!gen.bounded || (gen.low <= 0 && gen.high >= 0));
  const std::size_t certain = request.row_random.bits(kDrawOfTensor) % rows.count;
  const std::size_t rank = request.shape.size();
  const std::size_t together = rank > 2 ? static_cast<std::size_t>(request.shape[rank - 2]) : rows.count;
  const std::size_t matrices = rows.count / together;
  const std::size_t certain_matrix = request.row_random.bits(kDrawOfTensor + 1) % matrices;
  const auto is_zero_matrix = [&](std::size_t matrix) {
    if (matrices >= kManyMatrices && matrix == certain_matrix) return true;
    return rank > 2 && request.row_random.bits(kDrawOfTensor + 2 + matrix) >> 61 == 0;
  };
  const std::size_t length = request.line ? request.line->length : rows.length;
  const bool few = rows.count * rows.length / length < kFewRows;
  const auto start = [&](std::size_t line, std::size_t row) {
    const std::uint64_t draw = request.row_random.bits(line), kind = draw >> 61;
    const bool zero =
        kind == 0 || is_zero_matrix(row / together) || (rows.count == 1 ? kind == 1 : row == certain);
    return Row{values.is_class ? draw % length : place_in_row(length, draw, few), zeros && zero};
  };
  const auto element = [&](const Row& row, std::size_t i, std::size_t, std::size_t column) {
    if (row.zero) return signs ? std::copysign(0.0, request.random.sign(i)) : 0.0;
    return column == row.hot ? values.spike : values.background;
  };
  if (!request.line || values.is_class)
    return write_rows(
        request, out, rows, [&](std::size_t row) { return start(row, row); }, element);
  write_elements(request, out, [&](std::size_t i) {
    const std::size_t line = request.line->of(i);
    return element(start(line, i / rows.length), i, line, request.line->place(i));
  });
}

/// Nearly equal magnitudes with signs that alternate along rows and columns; parameters keep one
/// sign, so that products with them nearly cancel too.
void fill_cancellation(const Request& request, HostTensor& out) {
  const Generator& gen = request.decl.generator;
  const double keep_sign = request.decl.role == Role::kParameter ? 1 : -1;
  write_rows(
      request, out, rows_of(request.shape, kMinRow), [](std::size_t row) { return (row & 1) != 0; },
      [&](bool odd_row, std::size_t i, std::size_t, std::size_t column) {
        const double sign = odd_row != ((column & 1) != 0) ? keep_sign : 1;
        return sign * gen.scale * (1 + 0x1p-10 * request.random.normal(i));
      });
}

/// Denormals of the tensor's own dtype, and in half of the rows values of any magnitude above them,
/// so that some are about as large as what a norm is kept from zero by; at least one row is
/// denormal, and a single one at times only in parts. Parameters stay ordinary, so that products
/// stay near the denormals.
void fill_denormal(const Request& request, HostTensor& out) {
  if (request.decl.role == Role::kParameter) return fill_normal(request, out);
  const double least = 2 * info(request.decl.dtype).smallest_normal;
  const double range = std::max(1.0, request.decl.generator.scale / least);
  const Rows rows = rows_or_parts(request);
  const std::uint64_t draw = request.row_random.bits(kDrawOfTensor);
  const std::size_t denormal = (draw >> 1) % rows.count;
  write_rows(
      request, out, rows,
      [&](std::size_t row) {
        const bool above = row != denormal && (request.row_random.bits(2 * row) & 1) != 0;
        return above ? least * std::pow(range, request.row_random.uniform(2 * row + 1)) : least;
      },
      [&](double magnitude, std::size_t i, std::size_t, std::size_t) {
        return magnitude * request.random.normal(i);
      });
}

/// Whether values are only selected, not computed with.
bool is_wide(const Request& request) { return request.reach.scales > kLongestReach; }

/// How far the tensor's own dtype lets inputs reach, with room for a few standard deviations, and
/// for sums of a few.
double reach_of(const Request& request) {
  const double room = is_wide(request) ? 4 : 16;
  return std::clamp(info(request.decl.dtype).largest / (room * request.decl.generator.scale), 1.0,
                    request.reach.scales);
}

/// A row's magnitude, drawn between the ordinary scale and the reach, more often close to the
/// reach unless that is very far.
double large_magnitude(const Request& request, std::uint64_t draw) {
  const double least = is_wide(request) ? 0 : 0.3;
  return request.decl.generator.scale *
         std::pow(reach_of(request), least + (1 - least) * request.row_random.uniform(draw));
}

/// A positive row's magnitude far below the ordinary scale, about as small as an epsilon beside it,
/// unless its values would be denormal.
double tiny_magnitude(const Request& request, std::uint64_t draw) {
  const double scale = request.decl.generator.scale;
  const double tiny = scale * std::pow(reach_of(request), -2 * request.row_random.uniform(draw));
  return std::min(scale, std::max(tiny, 64 * info(request.decl.dtype).smallest_normal));
}

/// The spread around a mean of this magnitude: the ordinary one, unless dtypes could not hold it.
double spread_around(const Request& request, double magnitude) {
  return std::max(request.decl.generator.scale, magnitude / kLongestReach);
}

/// A part of a row, a sixteenth to a half of it.
struct PartOfRow {
  std::size_t begin = 0, end = 0;

  bool holds(std::size_t column) const { return column >= begin && column < end; }
};

PartOfRow part_of_row(std::size_t length, std::uint64_t draw) {
  const std::size_t part = length >> (1 + draw % 4), begin = (draw >> 2) % (length - part + 1);
  return {begin, begin + part};
}

/// Half of the rows of large magnitude, of which half have their largest value of one sign at an
/// end, a quarter of equal values, at times in a part of the row alone, and a quarter whose mean is
/// far above the spread.
void fill_large(const Request& request, HostTensor& out) {
  struct Row {
    RowScale scale;
    PartOfRow part;         ///< beside it, values are ordinary
    std::size_t extreme;    ///< the column of the largest; none if beyond the row
    double deviations = 0;  ///< of that one from the mean
  };
  const Generator& gen = request.decl.generator;
  const double most = is_wide(request) ? 2 : 4;
  const Rows rows = rows_or_parts(request);
  write_rows(
      request, out, rows,
      [&](std::size_t row) {
        const double magnitude = large_magnitude(request, 2 * row);
        const std::uint64_t draw = request.row_random.bits(2 * row + 1), kind = draw & 3;
        if (kind < 2) {
          const std::array<std::size_t, 4> places = {0, rows.length - 1, rows.length, rows.length};
          return Row{{gen.mean, magnitude},
                     {0, rows.length},
                     places[(draw >> 2) & 3],
                     (draw & 16) != 0 ? most : -most};
        }
        const double shift = gen.mean + magnitude * request.row_random.sign(2 * row + 1);
        if (kind == 3) return Row{{shift, spread_around(request, magnitude)}, {0, rows.length}, rows.length};
        const bool in_part = (draw & 4) != 0;
        return Row{{shift, 0},
                   in_part ? part_of_row(rows.length, draw >> 3) : PartOfRow{0, rows.length},
                   rows.length};
      },
      [&](const Row& row, std::size_t i, std::size_t, std::size_t column) {
        if (column == row.extreme) return row.scale.shift + row.deviations * row.scale.scale;
        const RowScale scale = row.part.holds(column) ? row.scale : RowScale{gen.mean, gen.scale};
        return scale.shift + scale.scale * request.random.normal(i);
      });
}

/// One mean for the whole tensor, so that whatever is reduced has it; a quarter of the rows has no
/// spread.
void fill_offset(const Request& request, HostTensor& out) {
  const Generator& gen = request.decl.generator;
  const double share = 0.5 + 0.5 * request.row_random.uniform(0);
  const double magnitude = share * reach_of(request) * gen.scale;
  const double shift = gen.mean + request.row_random.sign(0) * magnitude;
  const double spread = spread_around(request, magnitude);
  write_rows(
      request, out, rows_of(request.shape, kMinRow),
      [&](std::size_t row) { return (request.row_random.bits(row + 1) & 3) == 0 ? 0 : spread; },
      [&](double scale, std::size_t i, std::size_t, std::size_t) {
        return shift + scale * request.random.normal(i);
      });
}

/// One row in eight has one large value of each sign, two times in three one of them at an end of
/// the row, one a mean far above the spread, and one such a mean in a part: who looks at a few
/// values of each row misses the first, and at a few rows all.
void fill_mixed(const Request& request, HostTensor& out) {
  struct Row {
    RowScale ordinary;
    double spike;  ///< 0 for none
    std::size_t up, down;
    RowScale apart = {};
    PartOfRow part = {};
  };
  constexpr std::size_t kStep = 4096;  // between spikes of a row
  const Generator& gen = request.decl.generator;
  const Rows rows = rows_of(request.shape, kMinRow);
  const std::size_t step = std::min(rows.length, kStep), certain = request.random.bits(0) % rows.count;
  write_rows(
      request, out, rows,
      [&](std::size_t row) {
        const double scale = gen.scale * std::exp2(2 * request.row_random.uniform(4 * row) - 1);
        const double shift = gen.mean + gen.scale * (request.row_random.uniform(4 * row + 1) - 0.5);
        const std::uint64_t draw = request.row_random.bits(4 * row + 2), kind = draw & 7;
        const double magnitude = large_magnitude(request, 4 * row + 3);
        const std::uint64_t where = (draw >> 32) % 3;
        std::size_t up = (draw >> 8) % step;
        if (where == 0) up = 0;
        if (where == 1) up = (rows.length - 1) % step;
        std::size_t down = (up + step / 2) % step;
        if ((draw >> 63) != 0) std::swap(up, down);
        Row made{{shift, scale}, 0, up, down};
        if (row == certain)
          made.spike = (0.5 + 0.5 * request.row_random.uniform(4 * row + 3)) * reach_of(request) * gen.scale;
        else if (kind == 0)
          made.spike = magnitude;
        else if (kind < 3)
          made.apart = {gen.mean + ((draw & 8) != 0 ? magnitude : -magnitude),
                        spread_around(request, magnitude)};
        if (kind == 1) made.part = {0, rows.length};
        if (kind == 2) made.part = part_of_row(rows.length, draw >> 4);
        return made;
      },
      [&](const Row& row, std::size_t i, std::size_t, std::size_t column) {
        if (row.spike != 0 && column % step == row.up) return gen.mean + row.spike;
        if (row.spike != 0 && column % step == row.down) return gen.mean - row.spike;
        const RowScale& scale = row.spike == 0 && row.part.holds(column) ? row.apart : row.ordinary;
        return scale.shift + scale.scale * request.random.normal(i);
      });
}

void fill_mantissas(const Request& request, HostTensor& out) {
  const double scale = request.decl.generator.scale;
  write_elements(request, out, [&](std::size_t i) {
    return request.random.sign(i) * scale * (1 + request.row_random.uniform(i));
  });
}

/// Ones at (p(t) mod rows, q(t) mod columns) of each matrix. Every row and every column has a one,
/// so whichever axis is contracted, each result selects one or a few elements of the other operand.
void fill_permutation(const Request& request, HostTensor& out) {
  Shape matrix = request.shape;
  if (matrix.size() > 3) matrix = {matrix[0], element_count(matrix) / matrix[0]};
  const auto columns = static_cast<std::size_t>(matrix.back());
  const std::size_t rows = matrix.size() < 2 ? 1 : static_cast<std::size_t>(matrix[matrix.size() - 2]);
  const std::size_t total = static_cast<std::size_t>(element_count(request.shape));
  std::vector<double> values(total, 0.0);
  std::vector<std::size_t> row_order(rows);
  std::vector<std::size_t> column_order(columns);
  std::iota(row_order.begin(), row_order.end(), 0);
  std::iota(column_order.begin(), column_order.end(), 0);
  for (std::size_t begin = 0; begin < total; begin += rows * columns) {
    Seed seed;
    for (std::size_t k = 0; k < seed.bytes.size(); ++k) {
      seed.bytes[k] = static_cast<std::uint8_t>(request.random.bits(begin + k));
    }
    Rng rng(seed);
    rng.shuffle(row_order);
    rng.shuffle(column_order);
    for (std::size_t t = 0; t < std::max(rows, columns); ++t) {
      values[begin + row_order[t % rows] * columns + column_order[t % columns]] = 1;
    }
  }
  write(request, out, [&](std::size_t begin, std::span<double> chunk) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(begin), chunk.size(), chunk.begin());
  });
}

template <class Constant>
void fill_row_constants(const Request& request, HostTensor& out, Constant constant) {
  write_rows(request, out, rows_of(request.shape, kMinRow), constant,
             [](double value, std::size_t, std::size_t, std::size_t) { return value; });
}

/// Parts of a tensor, a 256th to an eighth of it each, in which all values are an end of the range:
/// a few values do not tell of them, and a recurrence forgets nothing there.
class Stretches {
 public:
  Stretches(const Request& request, std::size_t parts) : used_(parts) {
    const Generator& gen = request.decl.generator;
    const auto count = static_cast<std::size_t>(element_count(request.shape));
    for (std::size_t k = 0; k < used_; ++k) {
      const std::uint64_t draw = request.row_random.bits(kDrawOfTensor + k);
      const std::size_t length = count >> (3 + draw % 6), begin = (draw >> 8) % (count - length + 1);
      parts_[k] = {begin, begin + length, k % 2 == 0 ? gen.high : gen.low};
    }
  }
  double value_at(std::size_t i, double elsewhere) const {
    for (const Part& part : std::span(parts_).first(used_))
      if (i >= part.begin && i < part.end) return part.value;
    return elsewhere;
  }

 private:
  struct Part {
    std::size_t begin, end;
    double value;
  };
  std::size_t used_;
  std::array<Part, 8> parts_{};
};

/// Values within [low, high], shaped by the distribution.
void fill_bounded(const Request& request, HostTensor& out) {
  const double low = request.decl.generator.low;
  const double high = request.decl.generator.high;
  const auto spread = [&](double width) {
    write_elements(request, out, [&, width](std::size_t i) {
      const double middle = 0.5 * (low + high);
      return middle + width * (high - low) * (request.random.uniform(i) - 0.5);
    });
  };
  const double first = std::ceil(low);
  const double last = std::min(std::floor(high), first + 8);
  switch (request.distribution) {
    case Distribution::kOneHot:
      return fill_one_hot(request, out, {low, high});
    case Distribution::kCancellation:
      return spread(0x1p-10);
    case Distribution::kIntegers:
      if (last <= first) return spread(1);
      return write_elements(request, out, [&](std::size_t i) {
        return first + std::floor(request.random.uniform(i) * (last - first + 1));
      });
    case Distribution::kHeavyTail:
      return write_elements(request, out, [&](std::size_t i) {
        const double u = request.random.uniform(i);
        return (request.row_random.bits(i) & 63) == 0 ? high - 0.01 * u * (high - low)
                                                      : low + 0.1 * u * (high - low);
      });
    case Distribution::kLarge:
      return write_elements(request, out, [&, stretches = Stretches(request, 8)](std::size_t i) {
        const double u = 3 * request.random.uniform(i);
        return stretches.value_at(i, u < 1 ? low : u < 2 ? high : low + (u - 2) * (high - low));
      });
    case Distribution::kOffset:
      return fill_row_constants(request, out, [&](std::size_t row) {
        return low + request.row_random.uniform(row) * (high - low);
      });
    case Distribution::kMixed:
      return write_elements(request, out, [&, stretches = Stretches(request, 2)](std::size_t i) {
        const std::uint64_t draw = request.row_random.bits(i);
        if ((draw & 63) == 0) return (draw & 64) != 0 ? low : high;
        return stretches.value_at(i, low + (high - low) * request.random.uniform(i));
      });
    default:
      return spread(1);
  }
}

double positive_magnitude(const Request& request, std::size_t i) {
  return 0.05 + std::fabs(request.random.normal(i));
}

/// Positive values, in half of the rows of any magnitude down to the least that is asked for,
/// unless that is denormal; a single row only in parts.
void fill_tiny(const Request& request, HostTensor& out) {
  const double scale = request.decl.generator.scale;
  const double least = std::max(scale * request.reach.tiny, 64 * info(request.decl.dtype).smallest_normal);
  Rows rows = rows_of(request.shape, kMinRow);
  if (rows.count == 1) rows = {kPartsOfRow, rows.length / kPartsOfRow + 1};
  write_rows(
      request, out, rows,
      [&](std::size_t row) {
        const bool tiny = least < scale && (request.row_random.bits(2 * row) & 1) != 0;
        return tiny ? scale * std::pow(least / scale, request.row_random.uniform(2 * row + 1)) : scale;
      },
      [&](double row_scale, std::size_t i, std::size_t, std::size_t) {
        return row_scale * positive_magnitude(request, i);
      });
}

void fill_positive(const Request& request, HostTensor& out) {
  const double scale = request.decl.generator.scale;
  const auto magnitude = [&](std::size_t i) { return positive_magnitude(request, i); };
  switch (request.distribution) {
    case Distribution::kOneHot:
      return fill_one_hot(request, out, {.background = 0x1p-7 * scale, .spike = scale, .may_be_zero = false});
    case Distribution::kCancellation:
      return write_elements(request, out,
                            [&](std::size_t i) { return scale * (1 + 0x1p-10 * request.random.uniform(i)); });
    case Distribution::kIntegers:
      return write_elements(
          request, out, [&](std::size_t i) { return static_cast<double>(1 + request.random.bits(i) % 8); });
    case Distribution::kProbe:
      return write_elements(request, out,
                            [&](std::size_t i) { return scale * (1 + request.random.uniform(i)); });
    case Distribution::kHeavyTail:
      return write_elements(request, out, [&](std::size_t i) {
        const double spike = (request.row_random.bits(i) & 63) == 0 ? 8 : 0.125;
        return scale * spike * magnitude(i);
      });
    case Distribution::kLarge:
    case Distribution::kMixed:
      return write_rows(
          request, out, rows_of(request.shape, kMinRow),
          [&](std::size_t row) {
            const std::uint64_t kind = request.row_random.bits(row) & 7;
            if (request.distribution == Distribution::kMixed && kind > 1) return scale;
            return (kind & 3) == 0 ? tiny_magnitude(request, row) : large_magnitude(request, row);
          },
          [&](double row_scale, std::size_t i, std::size_t, std::size_t) {
            return row_scale * magnitude(i);
          });
    case Distribution::kDenormal:
      return fill_tiny(request, out);
    case Distribution::kOffset:
      return write_elements(request, out, [&](std::size_t i) {
        const double mean = scale * reach_of(request);
        return mean + spread_around(request, mean) * request.random.uniform(i);
      });
    default:
      return write_elements(request, out, [&](std::size_t i) { return scale * magnitude(i); });
  }
}

/// Floating-point integers, with zeros of both signs among them.
void fill_integers(const Request& request, HostTensor& out) {
  write_elements(request, out, [&](std::size_t i) {
    const double value = static_cast<double>(request.random.bits(i) % 9) - 4;
    return std::copysign(value, value == 0 ? request.random.sign(i) : value);
  });
}

/// Whole numbers of an integer dtype. As long as their sums and products allow, they use all of its
/// bits, so that an intermediate of fewer shows.
class WholeNumbers {
 public:
  WholeNumbers(const Request& request, int bits)
      : request_(request),
        high_(std::exp2(std::min(bits, integer_bits(request.decl.dtype)) +
                        (info(request.decl.dtype).is_unsigned() ? 1 : 0)) -
              1),
        low_(request.decl.generator.kind == "positive" ? 1
             : info(request.decl.dtype).is_unsigned()  ? 0
                                                       : -high_ - 1) {}

  double high() const { return high_; }
  double low() const { return low_; }
  double any(std::size_t i) const {
    return low_ + std::floor(request_.random.uniform(i) * (high_ - low_ + 1));
  }
  /// Within `most` of zero, or of what is nearest to it.
  double small(std::size_t i, int most = 4) const {
    const double above = static_cast<double>(request_.random.bits(i) % (2 * static_cast<unsigned>(most) + 1));
    return std::clamp(low_ < 0 ? above - most : above, low_, high_);
  }
  double end(std::uint64_t draw) const { return (draw & 1) != 0 ? high() : low(); }
  /// Up to 8 from `of`, within the range.
  double near(double of, std::size_t i) const { return std::clamp(of + small(i), low_, high_); }

 private:
  const Request& request_;
  double high_;
  double low_;
};

/// Half of the rows use the whole range and what is telling in it, a quarter has one value from its
/// ends, and a quarter both. One has a number of each sign that may be larger, among small ones.
void fill_large_whole_numbers(const Request& request, const WholeNumbers& wide, HostTensor& out) {
  const Rows rows = rows_of(request.shape, kMinRow);
  const WholeNumbers spikes(request, request.reach.spike_bits);
  const bool has_spikes = request.decl.role != Role::kParameter && request.decl.role != Role::kScalar &&
                          spikes.high() > wide.high();
  const std::size_t spiked = request.row_random.bits(rows.count) % rows.count;
  const std::size_t up = request.row_random.bits(rows.count + 1) % rows.length;
  const std::size_t down = (up + rows.length / 2) % rows.length;
  std::vector<double> telling;
  for (const double x : request.telling)
    if (std::fabs(x) >= kWideWhole && x >= wide.low() && x <= wide.high()) telling.push_back(x);
  write_rows(
      request, out, rows, [&](std::size_t row) { return request.row_random.bits(row) >> 61; },
      [&](std::uint64_t kind, std::size_t i, std::size_t row, std::size_t column) {
        if (has_spikes && row == spiked) {
          if (column == up) return spikes.high();
          return column == down ? std::max(spikes.low(), -spikes.high()) : wide.small(i);
        }
        if (kind < 4) {
          const std::uint64_t draw = telling.empty() ? 1 : request.random.bits(i);
          return (draw & 3) != 0 ? wide.any(i) : telling[(draw >> 2) % telling.size()];
        }
        return kind < 6 ? wide.end(kind) : wide.end(request.random.bits(i) >> 63);
      });
}

/// One row in eight is of the whole range; one has two large values among ordinary ones.
void fill_mixed_whole_numbers(const Request& request, const WholeNumbers& ordinary, const WholeNumbers& wide,
                              HostTensor& out) {
  const Rows rows = rows_of(request.shape, kMinRow);
  const std::size_t certain = request.random.bits(0) % rows.count;
  const std::size_t up = request.row_random.bits(rows.count) % rows.length;
  const std::size_t down = (up + rows.length / 2) % rows.length;
  write_rows(
      request, out, rows, [&](std::size_t row) { return (request.row_random.bits(row) & 7) == 0; },
      [&](bool large, std::size_t i, std::size_t row, std::size_t column) {
        if (row == certain && column == up) return wide.high();
        if (row == certain && column == down) return wide.low();
        return large ? wide.any(i) : ordinary.any(i);
      });
}

void fill_whole_numbers(const Request& request, HostTensor& out) {
  const bool keeps_ordinary = request.decl.role == Role::kParameter || request.decl.role == Role::kScalar;
  const WholeNumbers ordinary(request, std::min(request.reach.integer_bits, kOrdinaryIntegerBits));
  const WholeNumbers wide(request, keeps_ordinary ? std::min(request.reach.integer_bits, kOrdinaryIntegerBits)
                                                  : request.reach.integer_bits);
  switch (request.distribution) {
    case Distribution::kHeavyTail:
      return write_elements(request, out, [&](std::size_t i) {
        const std::uint64_t draw = request.row_random.bits(i);
        return (draw & 63) == 0 ? ordinary.near(ordinary.end(draw >> 6), i) : ordinary.small(i);
      });
    case Distribution::kOneHot:
      if (keeps_ordinary) break;
      return fill_one_hot(request, out, {std::max(0.0, ordinary.low()), ordinary.high()});
    case Distribution::kCancellation:
      return write_rows(
          request, out, rows_of(request.shape, kMinRow), [](std::size_t row) { return row & 1; },
          [&](std::size_t odd_row, std::size_t i, std::size_t, std::size_t column) {
            const bool negative = !keeps_ordinary && odd_row != (column & 1);
            return ordinary.near(negative ? -ordinary.high() : ordinary.high(), i);
          });
    case Distribution::kDenormal:
      return write_elements(request, out, [&](std::size_t i) { return ordinary.small(i, 1); });
    case Distribution::kIntegers:
      return write_elements(request, out, [&](std::size_t i) { return ordinary.small(i); });
    case Distribution::kProbe:
      if (request.probe == ProbeRole::kPermutation) return fill_permutation(request, out);
      break;
    case Distribution::kLarge:
      return fill_large_whole_numbers(request, wide, out);
    case Distribution::kOffset: {
      const double share = 0.5 + 0.5 * request.row_random.uniform(0);
      const double sign = wide.low() < 0 ? request.row_random.sign(0) : 1;
      const double mean = std::floor(share * wide.high()) * sign;
      return write_elements(request, out, [&](std::size_t i) { return wide.near(mean, i); });
    }
    case Distribution::kMixed:
      return fill_mixed_whole_numbers(request, ordinary, wide, out);
    case Distribution::kNormal:
      break;
  }
  write_elements(request, out, [&](std::size_t i) { return ordinary.any(i); });
}

/// Whether what is drawn is regular but for a flaw inside: who looks at its ends alone takes it for
/// what it seems.
bool has_flaw(Distribution distribution) {
  return distribution == Distribution::kOneHot || distribution == Distribution::kCancellation ||
         distribution == Distribution::kDenormal;
}

/// Among the indices drawn from the whole range, those that hurry to one element, jump between the
/// first and the last, all ask for the last, or go up, half of the time from the first; rows that
/// stand still, go up or go down but for one element; and some neighbours that ask for the same,
/// among calls like the timed ones.
void fill_indices(const Request& request, HostTensor& out) {
  struct Row {
    std::uint64_t first;
    std::size_t flaw;  ///< none where it is 0
  };
  constexpr std::size_t kTogether = 4;
  const auto limit = static_cast<std::uint64_t>(request.index_limit);
  const std::uint64_t common = request.row_random.bits(0) % limit;
  const std::uint64_t rising_from = (request.row_random.bits(1) & 1) != 0 ? 0 : common;
  const Rows rows = rows_of(request.shape, 1);
  const std::uint64_t starts = limit > rows.length ? limit - rows.length + 1 : limit;
  write_rows(
      request, out, rows,
      [&](std::size_t row) {
        const std::uint64_t draw = request.row_random.bits(kDrawOfTensor + row);
        const bool flawed = rows.length > 2 && has_flaw(request.distribution);
        return Row{draw % starts, flawed ? 1 + (draw >> 32) % (rows.length - 2) : 0};
      },
      [&](const Row& row, std::size_t i, std::size_t, std::size_t column) {
        const std::uint64_t draw = request.random.bits(i), index = draw % limit;
        if (row.flaw > 0 && column == row.flaw) return static_cast<double>(index);
        switch (request.distribution) {
          case Distribution::kHeavyTail:
            return static_cast<double>((request.row_random.bits(i) & 63) == 0 ? index : common);
          case Distribution::kLarge:
            return static_cast<double>((draw >> 63) != 0 ? limit - 1 : 0);
          case Distribution::kOffset:
            return static_cast<double>(limit - 1);
          case Distribution::kIntegers:
            return static_cast<double>((rising_from + i) % limit);
          case Distribution::kMixed: {
            const std::size_t group = i / kTogether * kTogether;
            const bool alike = (request.row_random.bits(group) & 3) == 0;
            return static_cast<double>((alike ? request.random.bits(group) : draw) % limit);
          }
          case Distribution::kOneHot:
            return static_cast<double>(row.first);
          case Distribution::kCancellation:
            return static_cast<double>((row.first + column) % limit);
          case Distribution::kDenormal:
            return static_cast<double>((row.first + (rows.length - 1 - column)) % limit);
          default:
            return static_cast<double>(index);
        }
      });
}

Rng generator_of(const Request& request) {
  Seed seed;
  for (std::size_t k = 0; k < seed.bytes.size(); ++k)
    seed.bytes[k] = static_cast<std::uint8_t>(request.random.bits(k));
  return Rng(seed);
}

void write_all(const Request& request, const std::vector<std::int64_t>& values, HostTensor& out) {
  write_elements(request, out, [&](std::size_t i) { return static_cast<double>(values[i]); });
}

/// Exchanges two neighbours that are not at an end.
void exchange_inside(Rng& rng, std::span<std::int64_t> values) {
  if (values.size() < 4) return;
  const std::size_t at = 1 + rng.below(values.size() - 3);
  std::swap(values[at], values[at + 1]);
}

/// Some of the places in any order; all from the first or a drawn one on, the last ones from the
/// end, at times but for two of them, or those of both ends in turn.
void fill_distinct(const Request& request, HostTensor& out) {
  const std::int64_t limit = request.index_limit, count = element_count(request.shape);
  Rng rng = generator_of(request);
  std::vector<std::int64_t> values(static_cast<std::size_t>(limit));
  std::iota(values.begin(), values.end(), 0);
  const auto first = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(limit)));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t& value = values[static_cast<std::size_t>(i)];
    switch (request.distribution) {
      case Distribution::kIntegers:
      case Distribution::kCancellation:
        value = (first + i) % limit;
        break;
      case Distribution::kOneHot:
        value = i;
        break;
      case Distribution::kOffset:
      case Distribution::kDenormal:
        value = limit - 1 - i;
        break;
      case Distribution::kLarge:
        value = i % 2 == 0 ? i / 2 : limit - 1 - i / 2;
        break;
      default:
        std::swap(value, values[static_cast<std::size_t>(rng.between(i, limit - 1))]);
    }
  }
  if (has_flaw(request.distribution))
    exchange_inside(rng, std::span(values).first(static_cast<std::size_t>(count)));
  write_all(request, values, out);
}

/// Segments of drawn lengths, some of them empty; all of one length, at times but for two
/// neighbours, one that has nearly everything, or one, the last or any, that has all.
void fill_offsets(const Request& request, HostTensor& out) {
  const std::int64_t limit = request.index_limit, segments = element_count(request.shape) - 1;
  Rng rng = generator_of(request);
  std::vector<std::int64_t> values(static_cast<std::size_t>(segments) + 1, 0);
  const std::int64_t fullest = segments < 1 ? 0 : rng.between(1, segments);
  for (std::int64_t i = 1; i < segments; ++i) {
    std::int64_t& value = values[static_cast<std::size_t>(i)];
    const bool elsewhere = rng.chance(1.0 / 64);
    value = rng.between(0, limit);
    if (request.distribution == Distribution::kIntegers || has_flaw(request.distribution))
      value = limit * i / segments;
    if (request.distribution == Distribution::kOffset) value = 0;
    if (request.distribution == Distribution::kLarge ||
        (request.distribution == Distribution::kHeavyTail && !elsewhere))
      value = i < fullest ? 0 : limit;
  }
  if (segments > 0) values.back() = limit;
  std::ranges::sort(values);
  for (std::size_t i = 1; i + 1 < values.size(); ++i)
    if (request.distribution == Distribution::kMixed && rng.chance(0.25)) values[i] = values[i - 1];
  if (has_flaw(request.distribution) && segments > 3) {
    const auto at = static_cast<std::size_t>(rng.between(2, segments - 2));
    values[at] = rng.chance(0.5) ? values[at - 1] : rng.between(values[at - 1], values[at + 1]);
  }
  write_all(request, values, out);
}

/// Zeros and ones; of extreme masks, half of the lines are of one value, or one in 64 values
/// differs, or a single one of a line.
void fill_mask(const Request& request, HostTensor& out) {
  const auto drawn = [&](std::size_t i) { return static_cast<double>(request.random.bits(i) >> 63); };
  const Rows rows = rows_of(request.shape, 1);
  const Line line = request.line.value_or(Line{rows.length, 1});
  const bool few = rows.count * rows.length / line.length < kFewRows;
  const auto draw_of_line = [&](std::size_t i) { return request.row_random.bits(line.of(i)); };
  switch (request.distribution) {
    case Distribution::kLarge:
      return write_elements(request, out, [&](std::size_t i) {
        const bool common = (draw_of_line(i) & 1) != 0, other = (request.random.bits(i) & 63) == 0;
        return common != other ? 1.0 : 0.0;
      });
    case Distribution::kOneHot:
      return write_elements(request, out, [&](std::size_t i) {
        const std::uint64_t draw = draw_of_line(i);
        const bool common = (draw >> 63) != 0;
        const bool hot = line.place(i) == place_in_row(line.length, draw, few);
        return hot != common ? 1.0 : 0.0;
      });
    case Distribution::kOffset:
    case Distribution::kMixed:
      return write_elements(request, out, [&](std::size_t i) {
        const bool rare = request.distribution == Distribution::kMixed && !few;
        const std::uint64_t kind = draw_of_line(i) & (rare ? 7 : 3);
        if (few && kind == 2) return 0.0;  // which fewer kernels stand
        return kind < 2 ? static_cast<double>(kind) : drawn(i);
      });
    default:
      return write_elements(request, out, drawn);
  }
}

/// Telling values that the tensor may hold.
std::vector<double> telling_within(const Request& request) {
  const Generator& gen = request.decl.generator;
  const bool whole = !info(request.decl.dtype).is_float;
  const auto limit = static_cast<double>(request.index_limit);
  std::vector<double> values;
  for (const double x : request.telling)
    if ((gen.kind != "index" || (x >= 0 && x < limit)) && std::fabs(x) <= info(request.decl.dtype).largest &&
        (!gen.bounded || (x >= gen.low && x <= gen.high)) && (gen.kind != "positive" || x > 0) &&
        (gen.bounded || !whole || std::fabs(x) < kWideWhole))
      values.push_back(x);
  return values;
}

/// Puts telling values that the tensor may hold in the places of half of its elements.
void mix_in(const Request& request, HostTensor& out) {
  const std::vector<double> values = telling_within(request);
  if (values.empty()) return;
  std::vector<double> all = out.decode();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t draw = request.row_random.bits(i);
    if ((draw & 1) != 0) all[i] = values[(draw >> 1) % values.size()];
  }
  info(out.dtype).encode(all, out.bytes.data());
}

/// Two telling values, of a row and of one element in it, half of the time farther apart: where a
/// graph compares them with a number, that one often is alone on its side.
OneHot draw_telling(const Request& request, std::span<const double> values, std::uint64_t row) {
  const std::uint64_t draw = request.row_random.bits(2 * kDrawOfTensor + row);
  const std::size_t first = draw % values.size();
  const std::size_t second = (first + 1 + (draw >> 16) % (values.size() - 1)) % values.size();
  OneHot one{values[first], values[second]};
  const bool whole = !info(request.decl.dtype).is_float;
  if (whole || (draw >> 63) != 0) return one;
  const double sign = one.spike > one.background ? 1 : -1, scale = sign * request.decl.generator.scale;
  one.spike += scale * request.random.uniform(2 * row);
  one.background -= scale * request.random.uniform(2 * row + 1);
  if (request.decl.generator.kind != "positive" || std::min(one.spike, one.background) > 0) return one;
  return {values[first], values[second]};
}

/// Makes half of the lines, and most of a few, of two telling values, one of them in a single
/// place.
void mix_in_lines(const Request& request, HostTensor& out) {
  const std::vector<double> values = telling_within(request);
  if (values.size() < 2) return;
  const Line line = request.line.value_or(Line{rows_of(request.shape, 1).length, 1});
  std::vector<double> all = out.decode();
  const std::size_t lines = all.size() / line.length;
  const bool few = lines < kFewRows;
  for (std::size_t l = 0; l < lines; ++l) {
    const std::uint64_t draw = request.row_random.bits(3 * kDrawOfTensor + l);
    if (((draw >> 32) & (few ? 3 : 1)) == 0) continue;
    const OneHot one = draw_telling(request, values, l);
    const std::size_t hot = place_in_row(line.length, draw, few);
    double* const first = all.data() + l / line.stride * line.stride * line.length + l % line.stride;
    for (std::size_t k = 0; k < line.length; ++k)
      first[k * line.stride] = k == hot ? one.spike : one.background;
  }
  if (request.decl.generator.bounded)
    for (double& x : all) x = std::clamp(x, request.decl.generator.low, request.decl.generator.high);
  info(out.dtype).encode(all, out.bytes.data());
}

void mix_in_telling(const Request& request, HostTensor& out) {
  if (request.distribution == Distribution::kIntegers) mix_in(request, out);
  if (has_single_values(request.distribution)) mix_in_lines(request, out);
}

void fill_by_distribution(const Request& request, HostTensor& out) {
  switch (request.distribution) {
    case Distribution::kNormal:
      return fill_normal(request, out);
    case Distribution::kHeavyTail:
      return fill_heavy_tail(request, out);
    case Distribution::kOneHot:
      if (request.decl.role == Role::kParameter) return fill_normal(request, out);
      return fill_one_hot(request, out, {0, request.decl.generator.scale * (1 + request.random.uniform(0))});
    case Distribution::kCancellation:
      return fill_cancellation(request, out);
    case Distribution::kDenormal:
      return fill_denormal(request, out);
    case Distribution::kIntegers:
      return fill_integers(request, out);
    case Distribution::kProbe:
      return request.probe == ProbeRole::kPermutation ? fill_permutation(request, out)
                                                      : fill_mantissas(request, out);
    case Distribution::kLarge:
      if (request.decl.role == Role::kParameter) return fill_normal(request, out);
      return fill_large(request, out);
    case Distribution::kOffset:
      if (request.decl.role == Role::kParameter) return fill_normal(request, out);
      return fill_offset(request, out);
    case Distribution::kMixed:
      if (request.decl.role == Role::kParameter) return fill_normal(request, out);
      return fill_mixed(request, out);
  }
}

}  // namespace

bool is_mask(const TensorDecl& decl) {
  return decl.generator.kind == "zeros_ones" || decl.dtype == DType::kBool;
}

bool has_single_values(Distribution distribution) {
  return distribution == Distribution::kOneHot || distribution == Distribution::kCancellation ||
         distribution == Distribution::kDenormal;
}

void fill_tensor(const FillRequest& request, HostTensor& out) {
  const TensorDecl& decl = request.decl;
  if (decl.value.has_value()) {
    return write_elements(request, out, [&](std::size_t) { return *decl.value; });
  }
  const std::string& kind = decl.generator.kind;
  if (decl.generator.order == Order::kDistinct) return fill_distinct(request, out);
  if (decl.generator.order == Order::kOffsets) return fill_offsets(request, out);
  if (kind == "index") {
    fill_indices(request, out);
    return mix_in_telling(request, out);
  }
  if (is_mask(decl)) return fill_mask(request, out);
  if (kind == "one_hot") return fill_one_hot(request, out, {.is_class = true, .may_be_zero = false});
  if (has_free_integers(decl)) {
    fill_whole_numbers(request, out);
  } else if (decl.generator.bounded) {
    fill_bounded(request, out);
  } else if (kind == "positive") {
    fill_positive(request, out);
  } else if (decl.role == Role::kScalar) {
    return fill_mantissas(request, out);
  } else {
    fill_by_distribution(request, out);
  }
  mix_in_telling(request, out);
}

}  // namespace lathe
