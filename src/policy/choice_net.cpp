#include "policy/choice_net.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "record/json_integer.h"

namespace lathe {
namespace {

constexpr const char* kFormat = "lathe choice net";
constexpr int kVersion = 2;
constexpr std::size_t kKnobSlots = 48, kPatternSlots = 16, kTakenSlots = 24;
constexpr std::size_t kValueFeatures = 6, kShownFeatures = 4;
constexpr std::size_t kFirstShown =
    kKnobSlots + kPatternSlots + kValueFeatures + std::tuple_size_v<KernelTraits> + kTakenSlots;
constexpr std::size_t kFeatures = kFirstShown + ShownChoices::kMost * kShownFeatures;
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

ChoiceNet::ChoiceNet(const Seed& seed, int hidden, double joint_temperature)
    : hidden_(hidden), joint_temperature_(joint_temperature) {
  const auto width = static_cast<std::size_t>(hidden);
  weights_.assign((kFeatures + 2) * width, 0);
  Rng rng(seed);
  const double scale = 1 / std::sqrt(12.0);  // a dozen features of a decision are not zero
  for (std::size_t i = 0; i < kFeatures * width; ++i) weights_[i] = scale * rng.normal();
  // A network that was never trained with examples is not to be moved by them.
  std::fill(weights_.begin() + kFirstShown * width, weights_.begin() + kFeatures * width, 0.0);
}

ChoiceInput ChoiceNet::input(const ChoiceSite& site, std::span<const std::pair<ChoiceSite, int>> taken,
                             std::size_t value) {
  ChoiceInput xs;
  std::size_t at = 0;
  const auto add = [&](std::size_t feature, double x) {
    if (x != 0) xs.emplace_back(static_cast<std::uint32_t>(feature), x);
  };
  add(at + slot(site.pattern, site.knob, kKnobSlots), 1);
  at += kKnobSlots;
  add(at + slot(site.pattern, {}, kPatternSlots), 1);
  at += kPatternSlots;

  const int chosen = site.allowed[value];
  const auto last = static_cast<double>(site.allowed.size() - 1);
  add(at++, log_of(chosen));
  add(at++, log_of(chosen) * log_of(chosen));
  add(at++, static_cast<double>(value) / last);
  add(at++, value == 0 ? 1 : 0);
  add(at++, chosen == site.usual ? 1 : 0);
  add(at++, log_of(chosen) - log_of(site.usual));
  for (const float trait : site.traits) add(at++, trait * kTraitScale);

  for (const auto& [earlier, before] : taken)
    if (earlier.kernel == site.kernel || earlier.kernel < 0)
      add(at + slot(earlier.knob, {}, kTakenSlots), log_of(before) - log_of(earlier.usual));
  return xs;
}

void ChoiceNet::add_shown(ChoiceInput& input, const ChoiceSite& site, std::size_t value,
                          std::span<const ShownChoices> shown) {
  const int chosen = site.allowed[value];
  for (std::size_t i = 0; i < std::min(ShownChoices::kMost, shown.size()); ++i) {
    const std::size_t at = kFirstShown + i * kShownFeatures;
    const auto add = [&](std::size_t feature, double x) {
      if (x != 0) input.emplace_back(static_cast<std::uint32_t>(at + feature), x);
    };
    add(0, 1);
    const auto there = std::ranges::find_if(shown[i].taken, [&](const auto& choice) {
      return choice.first.kernel == site.kernel && choice.first.knob == site.knob;
    });
    if (there == shown[i].taken.end()) continue;
    const double same = there->second == chosen ? 1 : -1;
    add(1, same);
    add(2, same * std::clamp(shown[i].score, -1.0, 1.0));
    add(3, log_of(chosen) - log_of(there->second));
  }
}

void ChoiceNet::activate(const ChoiceInput& input, std::span<double> hidden) const {
  const std::size_t width = hidden.size();
  const double* const bias = weights_.data() + kFeatures * width;
  std::copy(bias, bias + width, hidden.begin());
  for (const auto& [feature, x] : input) {
    const double* const row = weights_.data() + feature * width;
    for (std::size_t h = 0; h < width; ++h) hidden[h] += x * row[h];
  }
  for (double& sum : hidden) sum /= 1 + std::abs(sum);
}

double ChoiceNet::score(const ChoiceInput& input) const {
  std::vector<double> hidden(static_cast<std::size_t>(hidden_));
  activate(input, hidden);
  return std::inner_product(hidden.begin(), hidden.end(), weights_.end() - hidden_, 0.0);
}

void ChoiceNet::add_gradient(const ChoiceInput& input, double by_score, std::span<double> gradient) const {
  const auto width = static_cast<std::size_t>(hidden_);
  std::vector<double> hidden(width), by_sum(width);
  activate(input, hidden);
  const double* const output = weights_.data() + (kFeatures + 1) * width;
  for (std::size_t h = 0; h < width; ++h) {
    gradient[(kFeatures + 1) * width + h] += by_score * hidden[h];
    const double slope = 1 - std::abs(hidden[h]);
    by_sum[h] = by_score * output[h] * slope * slope;
    gradient[kFeatures * width + h] += by_sum[h];
  }
  for (const auto& [feature, x] : input)
    for (std::size_t h = 0; h < width; ++h) gradient[feature * width + h] += x * by_sum[h];
}

std::vector<double> ChoiceNet::terms(std::vector<double> scores) const {
  if (joint_temperature_ <= 0) return log_softmax(std::move(scores));
  for (double& one : scores) one /= joint_temperature_;
  return scores;
}

std::vector<double> ChoiceNet::terms(const ChoiceView& view) const {
  std::vector<double> scores;
  for (std::size_t v = 0; v < view.site.allowed.size(); ++v) {
    ChoiceInput one = input(view.site, view.taken, v);
    add_shown(one, view.site, v, view.shown);
    scores.push_back(score(one));
  }
  return terms(std::move(scores));
}

std::vector<double> log_softmax(std::vector<double> scores) {
  const double highest = *std::ranges::max_element(scores);
  double sum = 0;
  for (const double one : scores) sum += std::exp(one - highest);
  for (double& one : scores) one -= highest + std::log(sum);
  return scores;
}

std::string ChoiceNet::to_text() const {
  nlohmann::json json = {
      {"format", kFormat}, {"version", kVersion}, {"hidden", hidden_}, {"weights", weights_}};
  if (joint_temperature_ > 0) json["joint_temperature"] = joint_temperature_;
  return json.dump() + "\n";
}

Result<ChoiceNet> ChoiceNet::from_text(std::string_view text) {
  const auto bad = [](std::string_view what) {
    return invalid(std::string(what), "a file that `lathe train` wrote");
  };
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("this is no network of choices");
  try {
    if (json.at("format").get<std::string>() != kFormat) return bad("this is no network of choices");
    if (json_integer<int>(json.at("version")) != kVersion)
      return bad("a network of choices of another version");
    const auto hidden = json_integer<std::int64_t>(json.at("hidden"));
    if (hidden < 1 || hidden > kMostHidden) return bad("a network of choices of an impossible width");
    const double joint_temperature = json.value("joint_temperature", 0.0);
    if (!(joint_temperature >= 0 && std::isfinite(joint_temperature)))
      return bad("a network of choices with an impossible temperature");
    ChoiceNet net(Seed::from_number(0), static_cast<int>(hidden), joint_temperature);
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
