#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "task/spec.h"

namespace lathe {

/// A task at one shape, where every extent is a number.
struct BoundTask {
  const TaskSpec* spec = nullptr;  ///< must outlive this value
  Dims dims;
  std::map<std::string, Shape> shapes;  ///< of inputs, nodes and outputs
  std::vector<Attrs> attrs;             ///< of each node, expressions evaluated
  double flops = 0;
  double essential_flops = 0;  ///< a lower bound on the arithmetic, as far as the ops can tell
  double bytes_min = 0;  ///< a lower bound on memory traffic: outputs written once, and what every kernel
                         ///< must read of the inputs read once

  const Shape& shape_of(const std::string& value) const { return shapes.at(value); }
  double output_elements() const;  ///< of all outputs together
  double value_elements() const;   ///< of all inputs, intermediate values and outputs together
  /// The extents of spec->nodes[node]; the result refers to this value's attributes.
  OpSite site(std::size_t node) const;
};

/// Call it as lathe::bind: argument-dependent lookup also finds std::bind, a better match for
/// temporaries. Errors: a dim without value, an extent <= 0, dims outside the domain, more than
/// 2^31 elements.
Result<BoundTask> bind(const TaskSpec& spec, const Dims& dims);

/// Unpredictable shapes within the ranges and the domain, small enough to verify quickly: of each
/// three, one whose extents are all multiples of 64, and none of them a scored shape's, as far as
/// ranges go, and two of tile sizes +- 1, primes, ones and odd extents. Most are long in one dim,
/// each in another, first in dims that no scored shape takes to their end, and each has of what
/// kernels treat apart (ShapeCoverage) what those before it lack. Deterministic in the seed. Empty
/// for a fixed task.
std::vector<Dims> draw_hidden_shapes(const TaskSpec& spec, const Seed& seed, int count, double max_flops);

struct SizeLimits {
  double flops = 0;
  double elements = 0;  ///< of all values together
};
/// Those of hidden shapes, so that verification stays quick.
SizeLimits hidden_limits(double max_flops);
/// A shape as large as the limits allow within a factor of about four, up to the domain's end, most
/// often long in a dim in which draw_hidden_shapes() of the same seed gives none that is. None
/// where the domain ends before shapes have more values, or more arithmetic than `hidden_flops`,
/// than draw_hidden_shapes() gives them, or for a fixed task. It is chosen for what `others`, those
/// of the same verification, lack.
std::optional<Dims> draw_large_shape(const TaskSpec& spec, const Seed& seed, const SizeLimits& limits,
                                     double hidden_flops, std::span<const Dims> others = {});
/// Scored shapes but for the extent of one dim, in each shape another's, which is most often
/// awkward and no longer than the limits allow: where kernels made for the scored extents forget a
/// remainder. At most two, chosen for what `others` lack. None for a fixed task, where there is one
/// dim, or where no such shape is within the limits.
std::vector<Dims> draw_shapes_beside(const TaskSpec& spec, const Seed& seed, const SizeLimits& limits,
                                     std::span<const Dims> others = {});
/// Shapes of a few thousand values, which cost next to nothing, each chosen for what `others` and
/// those before it lack: for remainders and short extents that few larger ones have no room for.
/// Fewer than `count`, none perhaps, where the domain has no more, and none for a fixed task.
std::vector<Dims> draw_small_shapes(const TaskSpec& spec, const Seed& seed, int count,
                                    std::span<const Dims> others = {});
/// A scored shape, or what fits of it, but for one extent at least that is shorter than the widest
/// window, shift or padding along it and not the shortest of all: a kernel that splits an axis into
/// an inside and two borders has no inside there. None for a fixed task, or where no op has such a
/// window.
std::optional<Dims> draw_short_shape(const TaskSpec& spec, const Seed& seed, const SizeLimits& limits);
/// A shape whose extents are all larger than any scored shape's, as far as their ranges go: for
/// domains that end before a shape is large. None where no range goes further, or within the limits
/// no shape does.
std::optional<Dims> draw_shape_beyond(const TaskSpec& spec, const Seed& seed, const SizeLimits& limits);

}  // namespace lathe
