#pragma once

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
  std::vector<std::pair<ChoiceSite, int>> taken;
  double score = 0;  ///< logarithm of the lower bound of its speedup; of one that failed far below 0
};

/// What a chooser knows when it decides.
struct ChoiceView {
  const ChoiceSite& site;
  std::span<const std::pair<ChoiceSite, int>> taken;  ///< on the way here
  std::span<const ShownChoices> shown = {};           ///< the first two count
};

/// A network of a few thousand weights that scores each allowed value of a decision from the knob, its
/// kernel's pattern and size, what was taken before, and what kernels that are shown took there. Softmax of
/// the scores is a policy over schedules; fresh weights make every value equally likely. One hidden layer of
/// tanh, in double precision, so that a run is the same on every machine.
class ChoiceNet {
 public:
  explicit ChoiceNet(const Seed& seed, int hidden = 32);

  /// Of each of the site's allowed values. `open` leaves only some of them: the others get -infinity.
  std::vector<double> log_probabilities(const ChoiceView& view, const std::vector<bool>& open = {}) const;
  /// Adds to `gradient` what a loss with these derivatives by the scores of the allowed values has by the
  /// weights.
  void add_gradient(const ChoiceView& view, std::span<const double> by_score,
                    std::span<double> gradient) const;

  std::vector<double>& weights() { return weights_; }
  const std::vector<double>& weights() const { return weights_; }

  std::string to_text() const;  ///< JSON
  /// Errors: kInvalid, it is no network of this version.
  static Result<ChoiceNet> from_text(std::string_view text);

 private:
  std::vector<double> features(const ChoiceView& view, std::size_t value) const;
  std::vector<double> activations(std::span<const double> features) const;

  int hidden_;
  std::vector<double> weights_;  ///< [feature, then bias][hidden], then [hidden] of the score
};

}  // namespace lathe
