#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "task/spec.h"

namespace lathe {

/// A task at one shape: every extent a number.
struct BoundTask {
  const TaskSpec* spec = nullptr;  ///< must outlive this value
  Dims dims;
  std::map<std::string, Shape> shapes;  ///< of inputs, nodes and outputs
  std::vector<Attrs> attrs;             ///< of each node, expressions evaluated
  double flops = 0;
  double essential_flops = 0;  ///< arithmetic that no algebra can avoid, as far as the ops know
  double bytes_min = 0;  ///< every output written once, every input read once (of gathered tables nothing)

  const Shape& shape_of(const std::string& value) const { return shapes.at(value); }
  double output_elements() const;  ///< of all outputs together
  /// The extents of spec->nodes[node]; refers to this value's attributes.
  OpSite site(std::size_t node) const;
};

/// Write lathe::bind: argument-dependent lookup also finds std::bind, which wins for temporaries.
/// Errors: a dim without value, an extent <= 0, dims outside the domain, more than 2^31 elements.
Result<BoundTask> bind(const TaskSpec& spec, const Dims& dims);

/// Shapes that no candidate can foresee: tile +- 1, primes, misaligned, within ranges and domain, small
/// enough to verify quickly. Deterministic in the seed. Empty for a fixed task.
std::vector<Dims> draw_hidden_shapes(const TaskSpec& spec, const Seed& seed, int count, double max_flops);

}  // namespace lathe
