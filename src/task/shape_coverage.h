#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/random.h"
#include "task/spec.h"

namespace lathe {

/// What kernels treat apart in shapes, and may get wrong there alone: an extent of one, each other
/// small one, each remainder by the width of a vector, each half of a tile's remainder, each part
/// of the range, more than any scored shape has, two extents that are equal, differ by one or are
/// multiples of each other. Few shapes meet most of it only if each is chosen for what the others
/// lack.
class ShapeCoverage {
 public:
  /// How much each trait counts for is drawn from the seed about its weight, so that what a few
  /// shapes have no room for is another's turn with another seed.
  ShapeCoverage(const TaskSpec& spec, const Seed& seed);

  /// How much the shape has of what none of those added has.
  double gain(const Dims& dims) const;
  void add(const Dims& dims);

 private:
  /// Calls visit(number, weight) for each trait that the shape has. Returns how many there are.
  template <class Visit>
  std::size_t each_trait(const Dims& dims, Visit visit) const;

  struct Dim {
    std::string name;
    DimRange range;
    std::int64_t longest = 0;  ///< of scored shapes
  };
  std::vector<Dim> dims_;
  std::vector<double> factors_;  ///< by trait
  std::vector<bool> met_;
};

}  // namespace lathe
