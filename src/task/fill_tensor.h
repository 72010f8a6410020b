#pragma once

#include <optional>
#include <vector>

#include "task/generate_inputs.h"

namespace lathe {

/// Counter-based random numbers (splitmix64's finaliser over a keyed counter), so that loops over
/// elements vectorise. The key can be recovered from the output; every tensor therefore has its own
/// key, derived from the seed.
class RandomCounter {
 public:
  explicit RandomCounter(const Seed& seed) {
    Rng rng(seed);
    offset_ = rng.next();
    mask_ = rng.next();
  }
  std::uint64_t bits(std::uint64_t index) const {
    std::uint64_t z = (index * 0x9e3779b97f4a7c15U + offset_) ^ mask_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform(std::uint64_t index) const { return static_cast<double>(bits(index) >> 11) * 0x1p-53; }
  /// Approximately standard normal, within +-3: the sum of three 21-bit uniforms (Irwin-Hall).
  double normal(std::uint64_t index) const {
    constexpr std::uint64_t kField = (std::uint64_t{1} << 21) - 1;
    const std::uint64_t z = bits(index);
    const auto sum = static_cast<std::int64_t>((z & kField) + ((z >> 21) & kField) + ((z >> 42) & kField));
    return static_cast<double>(sum) * 0x1p-20 - 3;
  }
  /// -1 or 1.
  double sign(std::uint64_t index) const { return (bits(index) >> 63) != 0 ? -1.0 : 1.0; }

 private:
  std::uint64_t offset_ = 0;
  std::uint64_t mask_ = 0;
};

/// How the precision probe fills a contraction's operand.
enum class ProbeRole { kMantissa, kPermutation };

/// Elements of a tensor that an op takes together: `length` of them, `stride` apart.
struct Line {
  std::size_t length = 1;
  std::size_t stride = 1;

  /// The line of an element, and the element's place in it.
  std::size_t of(std::size_t element) const {
    return element / (stride * length) * stride + element % stride;
  }
  std::size_t place(std::size_t element) const { return element / stride % length; }
};

struct FillRequest {
  const TensorDecl& decl;
  const Shape& shape;
  Distribution distribution;
  Reach reach;
  ProbeRole probe;
  std::int64_t index_limit;
  RandomCounter random;
  RandomCounter row_random;
  std::vector<double> telling = {};  ///< where there are any, half of the integers, or a single value and
                                     ///< the others in half of the lines, are some of these
  std::optional<Line> line = {};     ///< of which one value is single, or of a mask none; a row by default
};

/// Whether the tensor holds zeros and ones.
bool is_mask(const TensorDecl& decl);

/// Whether some lines have a single value on the other side of what the graph compares them with.
bool has_single_values(Distribution distribution);

/// Fills a tensor according to its declaration and the distribution.
void fill_tensor(const FillRequest& request, HostTensor& out);

}  // namespace lathe
