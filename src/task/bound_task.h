#pragma once

#include <map>
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
  /// The extents of spec->nodes[node]; the result refers to this value's attributes.
  OpSite site(std::size_t node) const;
};

/// Call it as lathe::bind: argument-dependent lookup also finds std::bind, a better match for
/// temporaries. Errors: a dim without value, an extent <= 0, dims outside the domain, more than
/// 2^31 elements.
Result<BoundTask> bind(const TaskSpec& spec, const Dims& dims);

/// Unpredictable shapes within the ranges and the domain: tile sizes +- 1, primes, misaligned
/// extents, small enough to verify quickly. Deterministic in the seed. Empty for a fixed task.
std::vector<Dims> draw_hidden_shapes(const TaskSpec& spec, const Seed& seed, int count, double max_flops);

}  // namespace lathe
