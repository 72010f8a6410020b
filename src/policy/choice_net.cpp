#include "policy/choice_net.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

namespace lathe {
namespace {

constexpr const char* kFormat = "lathe choice net";
constexpr int kVersion = 1;
constexpr std::size_t kKnobSlots = 48, kPatternSlots = 16, kTakenSlots = 24, kShown = 2;
constexpr std::size_t kValueFeatures = 6, kShownFeatures = 4;
constexpr std::size_t kFeatures = kKnobSlots + kPatternSlots + kValueFeatures +
                                  std::tuple_size_v<KernelTraits> + kTakenSlots + kShown * kShownFeatures;
constexpr double kTraitScale = 1.0 / 16, kLogScale = 1.0 / 4;
constexpr int kMostHidden = 4096;

/// FNV-1a of the words: names share slots rarely, and need no list.
std::size_t slot(std::string_view first, std::string_view second, std::size_t slots) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::string_view word : {first, std::string_view("."), second})
    for (const char c : word) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  return (hash ^ hash >> 32) % slots;
}

double log_of(int value) { return std::copysign(std::log2(1.0 + std::abs(value)), value) * kLogScale; }

}  // namespace

ChoiceNet::ChoiceNet(const Seed& seed, int hidden) : hidden_(hidden) {
  const auto width = static_cast<std::size_t>(hidden);
  weights_.assign((kFeatures + 2) * width, 0);
  Rng rng(seed);
  const double scale = 1 / std::sqrt(12.0);  // a dozen features of a decision are not zero
  for (std::size_t i = 0; i < kFeatures * width; ++i) weights_[i] = scale * rng.normal();
}

std::vector<double> ChoiceNet::features(const ChoiceView& view, std::size_t value) const {
  std::vector<double> xs(kFeatures, 0);
  const ChoiceSite& site = view.site;
  std::size_t at = 0;
  xs[at + slot(site.pattern, site.knob, kKnobSlots)] = 1;
  at += kKnobSlots;
  xs[at + slot(site.pattern, {}, kPatternSlots)] = 1;
  at += kPatternSlots;

  const int chosen = site.allowed[value];
  const auto last = static_cast<double>(site.allowed.size() - 1);
  xs[at++] = log_of(chosen);
  xs[at++] = log_of(chosen) * log_of(chosen);
  xs[at++] = static_cast<double>(value) / last;
  xs[at++] = value == 0 ? 1 : 0;
  xs[at++] = chosen == site.usual ? 1 : 0;
  xs[at++] = log_of(chosen) - log_of(site.usual);
  for (const float trait : site.traits) xs[at++] = trait * kTraitScale;

  for (const auto& [earlier, taken] : view.taken)
    if (earlier.kernel == site.kernel || earlier.kernel < 0)
      xs[at + slot(earlier.knob, {}, kTakenSlots)] += log_of(taken) - log_of(earlier.usual);
  at += kTakenSlots;

  for (std::size_t i = 0; i < kShown; ++i, at += kShownFeatures) {
    if (i >= view.shown.size()) continue;
    const ShownChoices& shown = view.shown[i];
    xs[at] = 1;
    const auto there = std::ranges::find_if(shown.taken, [&](const auto& choice) {
      return choice.first.kernel == site.kernel && choice.first.knob == site.knob;
    });
    if (there == shown.taken.end()) continue;
    const bool same = there->second == chosen;
    xs[at + 1] = same ? 1 : -1;
    xs[at + 2] = std::clamp(shown.score, -1.0, 1.0) * (same ? 1 : -1);
    xs[at + 3] = log_of(chosen) - log_of(there->second);
  }
  return xs;
}

std::vector<double> ChoiceNet::activations(std::span<const double> features) const {
  const auto width = static_cast<std::size_t>(hidden_);
  const double* const bias = weights_.data() + kFeatures * width;
  std::vector<double> sums(bias, bias + width);
  for (std::size_t f = 0; f < kFeatures; ++f) {
    if (features[f] == 0) continue;
    const double* const row = weights_.data() + f * width;
    for (std::size_t h = 0; h < width; ++h) sums[h] += features[f] * row[h];
  }
  for (double& sum : sums) sum = std::tanh(sum);
  return sums;
}

std::vector<double> ChoiceNet::log_probabilities(const ChoiceView& view,
                                                 const std::vector<bool>& open) const {
  const auto width = static_cast<std::size_t>(hidden_);
  const double* const output = weights_.data() + (kFeatures + 1) * width;
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  std::vector<double> scores(view.site.allowed.size(), kNever);
  double highest = kNever;
  for (std::size_t v = 0; v < scores.size(); ++v) {
    if (!open.empty() && !open[v]) continue;
    const std::vector<double> hidden = activations(features(view, v));
    scores[v] = 0;
    for (std::size_t h = 0; h < width; ++h) scores[v] += hidden[h] * output[h];
    highest = std::max(highest, scores[v]);
  }
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - highest);
  for (double& score : scores) score -= highest + std::log(sum);
  return scores;
}

void ChoiceNet::add_gradient(const ChoiceView& view, std::span<const double> by_score,
                             std::span<double> gradient) const {
  const auto width = static_cast<std::size_t>(hidden_);
  const double* const output = weights_.data() + (kFeatures + 1) * width;
  for (std::size_t v = 0; v < by_score.size(); ++v) {
    if (by_score[v] == 0) continue;
    const std::vector<double> xs = features(view, v);
    const std::vector<double> hidden = activations(xs);
    std::vector<double> by_sum(width);
    for (std::size_t h = 0; h < width; ++h) {
      gradient[(kFeatures + 1) * width + h] += by_score[v] * hidden[h];
      by_sum[h] = by_score[v] * output[h] * (1 - hidden[h] * hidden[h]);
      gradient[kFeatures * width + h] += by_sum[h];
    }
    for (std::size_t f = 0; f < kFeatures; ++f) {
      if (xs[f] == 0) continue;
      for (std::size_t h = 0; h < width; ++h) gradient[f * width + h] += xs[f] * by_sum[h];
    }
  }
}

std::string ChoiceNet::to_text() const {
  return nlohmann::json{
             {"format", kFormat}, {"version", kVersion}, {"hidden", hidden_}, {"weights", weights_}}
             .dump() +
         "\n";
}

Result<ChoiceNet> ChoiceNet::from_text(std::string_view text) {
  const auto bad = [](std::string_view what) {
    return invalid(std::string(what), "a file that `lathe train` wrote");
  };
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("this is no network of choices");
  try {
    if (json.at("format").get<std::string>() != kFormat) return bad("this is no network of choices");
    if (json.at("version").get<int>() != kVersion) return bad("a network of choices of another version");
    const auto hidden = json.at("hidden").get<std::int64_t>();
    if (hidden < 1 || hidden > kMostHidden) return bad("a network of choices of an impossible width");
    ChoiceNet net(Seed::from_number(0), static_cast<int>(hidden));
    auto weights = json.at("weights").get<std::vector<double>>();
    if (weights.size() != net.weights_.size())
      return bad("a network of choices with another number of weights");
    net.weights_ = std::move(weights);
    return net;
  } catch (const nlohmann::json::exception& error) {
    return bad(error.what());
  }
}

}  // namespace lathe
