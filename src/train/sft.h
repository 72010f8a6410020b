#pragma once

#include <functional>
#include <string>

#include "base/cancel.h"
#include "base/result.h"
#include "train/example.h"
#include "train/learner.h"
#include "train/recipe.h"
#include "train/reducer.h"

namespace lathe::train {

/// One line of the metrics.
struct StepMetrics {
  std::int64_t step = 0;  ///< from 1
  std::int64_t steps = 0;
  std::int64_t epoch = 0;
  double loss = 0;           ///< mean over the step's weighted answer tokens
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;
  std::int64_t predicted_tokens = 0;
  double seconds = 0;
};

struct SftRun {
  const SftRecipe& recipe;
  const Dataset& train;
  const Dataset* held_out = nullptr;
  std::string folder;     ///< of checkpoint/, metrics.jsonl and the result
  std::string base_name;  ///< of the model, for the adapter's card
  bool resume = false;
  CancelToken cancel = {};
  std::function<void(const StepMetrics&)> on_step = {};
  std::function<void(std::int64_t step, double loss)> on_evaluation = {};
};

struct SftOutcome {
  std::int64_t steps_done = 0;
  std::int64_t steps = 0;
  bool cancelled = false;  ///< saved, and to be resumed
  double last_loss = 0;
  double held_out_loss = 0;  ///< 0 without held-out data
};

/// Trains `learner`: saves the run every so often and when it is cancelled, and leaves the result
/// at the end. Where several processes share the run, each calls this with the same data and the
/// same weights; the first alone writes, and its `cancel` stops all of them after the same step.
Result<SftOutcome> run_sft(const SftRun& run, Learner& learner, Reducer& reducer);

/// The mean of -log p over all weighted answer tokens.
double mean_loss(const Learner& learner, const Dataset& data, std::int64_t row_tokens,
                 std::int64_t rows_at_once);
/// The same in all processes, each of which computes its share.
Result<double> mean_loss(const Learner& learner, const Dataset& data, std::int64_t row_tokens,
                         std::int64_t rows_at_once, Reducer& reducer);

}  // namespace lathe::train
