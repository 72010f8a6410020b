#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "task/bound_task.h"

namespace lathe {

/// The distributions that a candidate is verified on; each exposes errors that the others hide.
enum class Distribution {
  kNormal,        ///< shifted normal with a scale per row
  kHeavyTail,     ///< a few large values among small ones
  kOneHot,        ///< one element apart a row, or of those that the graph takes together
  kCancellation,  ///< sums that nearly cancel
  kDenormal,      ///< values around the smallest normal
  kIntegers,      ///< integers from -4 to 4, exact in every format
  kProbe,         ///< full mantissas times a permutation matrix: exposes reduced precision
  kLarge,         ///< rows of large magnitudes, of equal large values, and of means far above the spread
  kOffset,        ///< one mean far above the spread everywhere; rows of equal values; masks of one value
  kMixed,         ///< as kNormal, but for some rows as of kLarge and some with one large value
};
std::string_view name(Distribution distribution);
/// Those that a shape is verified on: all but kMixed, which is for calls that look like timed ones.
std::span<const Distribution> all_distributions();
/// Whether it goes as far as the task allows: it tells stable algorithms from those that overflow
/// or cancel.
constexpr bool is_extreme(Distribution distribution) {
  return distribution == Distribution::kLarge || distribution == Distribution::kOffset ||
         distribution == Distribution::kMixed;
}
/// How many times their scale inputs reach at most, unless a task only selects among them.
inline constexpr double kLongestReach = 512;
/// Integers are within [-2^7, 2^7), as quantised values are, but where they are extreme.
inline constexpr int kOrdinaryIntegerBits = 7;

/// How far inputs go that have no declared bounds.
struct Reach {
  double scales = kLongestReach;            ///< of extreme floating-point inputs
  int integer_bits = kOrdinaryIntegerBits;  ///< integers are within [-2^bits, 2^bits)
  int spike_bits = 0;        ///< if more: of two in a row among small ones, where integers are large
  bool zero_rows = false;    ///< among rows of a single value there are some of zeros, of both signs
  bool common_rows = false;  ///< where rows nearly cancel, some are another tensor's, or their negatives
  bool far_limits = false;   ///< some values are beyond limits that ordinary ones keep to
  double tiny = 1;           ///< how small beside their scale positive inputs are, where others are denormal
};

/// Whether the tensor holds numbers that are whole, neither indices nor masks, and have no declared
/// bounds.
bool has_free_integers(const TensorDecl& decl);
/// The bits that such a tensor's values may have, but for their sign: 53 at most, for the reference
/// holds them as doubles.
int integer_bits(DType dtype);

/// Whether `far_limits` makes a difference to some tensor.
bool has_far_limits(const TaskSpec& spec);

/// One tensor for each of the task's inputs, in order. Bounded, positive and index generators keep
/// their range under every distribution. Deterministic in the seed.
std::vector<HostTensor> generate_inputs(const BoundTask& task, Distribution distribution, const Seed& seed,
                                        const Reach& reach = {});

}  // namespace lathe
