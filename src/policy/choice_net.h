#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/choice_space.h"

namespace lathe {

/// A kernel that a chooser has seen: what was taken where, and how good it was.
struct ShownChoices {
  static constexpr std::size_t kMost = 2;  ///< that a chooser looks at

  std::vector<TakenChoice> taken;
  double score = 0;  ///< score_of() its speedup

  /// The logarithm of the lower bound of a kernel's speedup; of one that failed (0) as if it were e
  /// times slower than the peer.
  static double score_of(double speedup_low) { return speedup_low > 0 ? std::log(speedup_low) : -1; }
};

/// What a chooser knows when it decides.
struct ChoiceView {
  const ChoiceSite& site;
  std::span<const TakenChoice> taken;        ///< on the way here
  std::span<const ShownChoices> shown = {};  ///< the first two count
};

/// What the network reads of one value of a decision: the features that are not zero, by their
/// number.
using ChoiceInput = std::vector<std::pair<std::uint32_t, double>>;

/// A network of a few thousand weights that scores each allowed value of a decision from the knob,
/// its kernel's pattern and size, what was taken before, and what kernels that are shown took
/// there. Softmax of the scores is a policy over schedules; fresh weights make every value equally
/// likely. One hidden layer of softsign, in double precision.
class ChoiceNet {
 public:
  /// With a `joint_temperature` above 0 a schedule's probability is softmax(the sum of its
  /// decisions' scores / temperature) over all schedules, and not the product of its decisions'
  /// own.
  explicit ChoiceNet(const Seed& seed, int hidden = 32, double joint_temperature = 0);

  /// Without what is shown: the same for all prompts.
  static ChoiceInput input(const ChoiceSite& site, std::span<const TakenChoice> taken, std::size_t value);
  static void add_shown(ChoiceInput& input, const ChoiceSite& site, std::size_t value,
                        std::span<const ShownChoices> shown);

  double score(const ChoiceInput& input) const;
  /// Adds to `gradient`, in the order of weights(), what a loss has whose derivative by the score
  /// is this.
  void add_gradient(const ChoiceInput& input, double by_score, std::span<double> gradient) const;
  /// What a decision's values, by their scores, add to the logarithm of a schedule's probability,
  /// but for a constant of all schedules.
  std::vector<double> terms(std::vector<double> scores) const;
  /// The same of each of the site's allowed values.
  std::vector<double> terms(const ChoiceView& view) const;
  double joint_temperature() const { return joint_temperature_; }

  std::vector<double>& weights() { return weights_; }
  const std::vector<double>& weights() const { return weights_; }

  std::string to_text() const;  ///< JSON
  /// Errors: kInvalid, it is no network of this version.
  static Result<ChoiceNet> from_text(std::string_view text);

 private:
  void activate(const ChoiceInput& input, std::span<double> hidden) const;

  int hidden_;
  double joint_temperature_;
  std::vector<double> weights_;  ///< [feature, then bias][hidden], then [hidden] of the score
};

/// Logarithms of the softmax of scores.
std::vector<double> log_softmax(std::vector<double> scores);

}  // namespace lathe
