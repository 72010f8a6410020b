#include "lm/cpu/draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/function_versions.h"
#include "lm/cpu/vector_math.h"
#include "lm/random_stream.h"

namespace lathe::lm {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 32;

LATHE_VERSIONS float largest(const float* values, std::size_t count) {
  float most[kLanes];
  std::fill_n(most, kLanes, kNever);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) most[j] = values[i + j] > most[j] ? values[i + j] : most[j];
  for (; i < count; ++i) most[0] = std::max(most[0], values[i]);
  return *std::max_element(most, most + kLanes);
}

LATHE_VERSIONS double sum_of_exponentials(const float* values, std::size_t count, float most) {
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) sums[j] += exp_of_negative(values[i + j] - most);
  double sum = std::accumulate(sums, sums + kLanes, 0.0);
  for (; i < count; ++i) sum += static_cast<double>(exp_of_negative(values[i] - most));
  return sum;
}

/// values become depths below `most`.
LATHE_VERSIONS void to_depths(const float* values, float* depths, std::size_t count, float most,
                              float inverse) {
  for (std::size_t i = 0; i < count; ++i) {
    const float depth = (most - values[i]) * inverse;
    depths[i] = depth < kDeepest ? depth : kDeepest;
  }
}

/// In units of 2^-40, cut to integers when they are added.
LATHE_VERSIONS void to_masses(const float* depths, float* masses, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float mass = exp_of_negative(-depths[i]) * kMassUnit;
    masses[i] = depths[i] < kDeepest ? mass : 0.0F;
  }
}

std::uint64_t whole(float mass) { return static_cast<std::uint64_t>(static_cast<std::int64_t>(mass)); }

/// The row's tokens as they are drawn.
struct Weighed {
  std::span<float> depths;
  std::span<float> masses;

  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const float mass : masses) sum += whole(mass);
    return sum;
  }
};

/// The tokens with a level of at most `level` and what they weigh.
struct Kept {
  int level = kCutLevels - 1;
  std::uint64_t mass = 0;
  std::uint64_t count = 0;
};

/// The fewest levels that reach what `enough` asks for, in two steps.
template <class Enough>
Kept cut(const Weighed& tokens, const Kept& before, Enough enough) {
  Kept reached{.level = -1};
  for (const bool coarse : {true, false}) {
    std::array<std::uint64_t, kCoarse> mass{}, count{};
    const int base = reached.level + 1;
    for (std::size_t token = 0; token < tokens.depths.size(); ++token) {
      const int level = cut_level(tokens.depths[token]);
      if (level > before.level || level < base) continue;
      const int bin = coarse ? level / kCoarse : level - base;
      if (bin >= kCoarse) continue;
      const auto at = static_cast<std::size_t>(bin);
      mass[at] += whole(tokens.masses[token]);
      ++count[at];
    }
    const int step = coarse ? kCoarse : 1;
    for (std::size_t bin = 0; bin < kCoarse; ++bin) {
      const Kept next{reached.level + step, reached.mass + mass[bin], reached.count + count[bin]};
      const bool done = enough(next);
      if (done && coarse) break;
      reached = next;
      if (done) return reached;
    }
  }
  return before;
}

}  // namespace

Drawn draw(std::span<const float> logits, const DrawState& state, std::vector<float>& scratch) {
  const std::size_t count = logits.size();
  scratch.resize(2 * count);
  const float most_of_all = largest(logits.data(), count);
  const double log_sum =
      static_cast<double>(most_of_all) + std::log(sum_of_exponentials(logits.data(), count, most_of_all));

  if (!std::isfinite(log_sum)) return {.token = kNoToken};

  const float* allowed = logits.data();
  if (state.grammar) {
    const auto& here = state.grammar->states[static_cast<std::size_t>(state.grammar_state)];
    if (here.otherwise != TokenAutomaton::kForbidden)
      std::copy(logits.begin(), logits.end(), scratch.begin());
    else
      std::fill_n(scratch.begin(), count, kNever);
    for (const auto& arrow : here.arrows) {
      const auto token = static_cast<std::size_t>(arrow.token);
      scratch[token] = arrow.to == TokenAutomaton::kForbidden ? kNever : logits[token];
    }
    allowed = scratch.data();
  }
  const auto drawn = [&](std::size_t token, double log_prob) {
    return Drawn{static_cast<TokenId>(token), static_cast<float>(log_prob),
                 static_cast<float>(static_cast<double>(logits[token]) - log_sum)};
  };
  const float most = state.grammar ? largest(allowed, count) : most_of_all;
  if (state.sampling.temperature == 0)
    return drawn(static_cast<std::size_t>(std::find(allowed, allowed + count, most) - allowed), 0);

  const Weighed tokens{std::span(scratch).first(count), std::span(scratch).last(count)};
  to_depths(allowed, tokens.depths.data(), count, most, 1.0F / state.sampling.temperature);
  to_masses(tokens.depths.data(), tokens.masses.data(), count);
  Kept kept{.count = count};
  if (state.sampling.top_k > 0) {
    const auto wanted = static_cast<std::uint64_t>(state.sampling.top_k);
    kept = cut(tokens, kept, [&](const Kept& next) { return next.count >= wanted; });
  }
  if (state.sampling.top_p < 1) {
    if (kept.mass == 0) kept.mass = tokens.total();
    const double wanted = static_cast<double>(state.sampling.top_p) * static_cast<double>(kept.mass);
    kept = cut(tokens, kept, [&](const Kept& next) { return static_cast<double>(next.mass) >= wanted; });
  }
  if (kept.level < kCutLevels - 1)
    for (std::size_t token = 0; token < count; ++token)
      if (cut_level(tokens.depths[token]) > kept.level) tokens.masses[token] = 0;
  const std::uint64_t total = tokens.total();
  std::uint64_t left = scale_to(random_bits(state.sampling.seed, state.stream, state.counter), total);
  for (std::size_t token = 0; token < count; ++token) {
    const std::uint64_t own = whole(tokens.masses[token]);
    if (left < own) return drawn(token, std::log(static_cast<double>(own) / static_cast<double>(total)));
    left -= own;
  }
  return {.token = kNoToken};
}

}  // namespace lathe::lm
