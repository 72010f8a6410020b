#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/example.h"

namespace lathe::train {

/// The examples of one row, which together have at most the row's length.
using Row = std::vector<std::size_t>;

/// 0 ... count - 1 in the order of an epoch. Every machine gives the same.
std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed, std::int64_t epoch);

/// Fills rows of `row_length` tokens in the order given: each example goes into the first of the
/// last few open rows that has room, so that an order stays nearly as it was shuffled. Lengths must
/// not exceed the row's.
std::vector<Row> pack(std::span<const std::size_t> order, std::span<const std::int64_t> lengths,
                      std::int64_t row_length);

/// One update of the weights.
struct Step {
  std::int64_t epoch = 0;
  std::vector<Row> rows;
};
struct PlanOptions {
  std::int64_t row_length = 0;
  std::int64_t rows_per_step = 1;
  std::int64_t epochs = 1;  ///< ignored where `steps` is given
  std::int64_t steps = 0;   ///< 0: whole epochs
  std::uint64_t seed = 0;
};
/// What a run will do, from the first step to the last. A step never crosses epochs: the last one
/// of an epoch may have fewer rows.
std::vector<Step> plan_steps(std::span<const std::int64_t> lengths, const PlanOptions& options);

/// Rows as a model computes them: one example after the other in one long sequence, each with
/// positions of its own. Where a row is not full, nothing stands: its tokens would only cost time.
struct Batch {
  std::vector<std::int64_t> tokens;     ///< [n]
  std::vector<std::int64_t> positions;  ///< [n]
  std::vector<std::int32_t> bounds;     ///< where each example begins, then n
  std::int32_t longest = 0;             ///< of the examples

  /// What is predicted: token `targets[i]` after place `places[i]` of `tokens`.
  std::vector<std::int64_t> places, targets;
  std::vector<float> weights;
  std::vector<float> log_probs;  ///< when it was sampled; not a number where unknown
};
Batch make_batch(std::span<const Example> examples, std::span<const Row> rows);

}  // namespace lathe::train
