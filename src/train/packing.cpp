#include "train/packing.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace lathe::train {
namespace {

constexpr std::size_t kOpenRows = 16;

}  // namespace

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Rng rng(Seed::from_number(seed).derive("order of examples", static_cast<std::uint64_t>(epoch)));
  rng.shuffle(order);
  return order;
}

std::vector<Row> pack(std::span<const std::size_t> order, std::span<const std::int64_t> lengths,
                      std::int64_t row_length) {
  std::vector<Row> rows;
  std::vector<std::int64_t> room;
  for (const std::size_t example : order) {
    assert(lengths[example] <= row_length);
    std::size_t row = rows.size() > kOpenRows ? rows.size() - kOpenRows : 0;
    while (row < rows.size() && room[row] < lengths[example]) ++row;
    if (row == rows.size()) {
      rows.emplace_back();
      room.push_back(row_length);
    }
    rows[row].push_back(example);
    room[row] -= lengths[example];
  }
  return rows;
}

std::vector<Step> plan_steps(std::span<const std::int64_t> lengths, const PlanOptions& options) {
  std::vector<Step> plan;
  const auto wanted = static_cast<std::size_t>(options.steps);
  for (std::int64_t epoch = 0; wanted > 0 ? plan.size() < wanted : epoch < options.epochs; ++epoch) {
    const auto rows = pack(shuffled(lengths.size(), options.seed, epoch), lengths, options.row_length);
    const auto share = static_cast<std::size_t>(options.rows_per_step);
    for (std::size_t first = 0; first < rows.size(); first += share) {
      const std::size_t last = std::min(rows.size(), first + share);
      plan.push_back({epoch,
                      {rows.begin() + static_cast<std::ptrdiff_t>(first),
                       rows.begin() + static_cast<std::ptrdiff_t>(last)}});
    }
  }
  if (wanted > 0) plan.resize(wanted);
  return plan;
}

Batch make_batch(std::span<const Example> examples, std::span<const Row> rows) {
  Batch batch;
  for (const Row& row : rows)
    for (const std::size_t index : row) {
      const Example& example = examples[index];
      const auto begin = static_cast<std::int64_t>(batch.tokens.size());
      batch.bounds.push_back(static_cast<std::int32_t>(begin));
      batch.tokens.insert(batch.tokens.end(), example.prompt.begin(), example.prompt.end());
      batch.tokens.insert(batch.tokens.end(), example.answer.begin(), example.answer.end());
      for (std::int64_t i = 0; i < example.length(); ++i) batch.positions.push_back(i);
      batch.longest = std::max(batch.longest, static_cast<std::int32_t>(example.length()));
      const auto prompt = static_cast<std::int64_t>(example.prompt.size());
      for (std::size_t i = 0; i < example.answer.size(); ++i) {
        const std::int64_t place = begin + prompt + static_cast<std::int64_t>(i) - 1;
        if (example.weights[i] == 0 || place < begin) continue;
        batch.places.push_back(place);
        batch.targets.push_back(example.answer[i]);
        batch.weights.push_back(example.weights[i]);
        batch.log_probs.push_back(example.log_probs.empty() ? std::numeric_limits<float>::quiet_NaN()
                                                            : example.log_probs[i]);
      }
    }
  batch.bounds.push_back(static_cast<std::int32_t>(batch.tokens.size()));
  return batch;
}

}  // namespace lathe::train
