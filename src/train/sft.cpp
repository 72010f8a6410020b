#include "train/sft.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "base/guard.h"
#include "record/json_lines_file.h"
#include "train/run_state.h"
#include "train/to_tensor.h"

namespace lathe::train {
namespace {

std::vector<std::int64_t> lengths_of(const Dataset& data) {
  std::vector<std::int64_t> lengths;
  for (const Example& example : data.examples) lengths.push_back(example.length());
  return lengths;
}

double weight_of(const Dataset& data, const std::vector<Row>& rows) {
  double weight = 0;
  for (const Row& row : rows)
    for (const std::size_t example : row) weight += data.examples[example].total_weight();
  return weight;
}

std::int64_t number_of(const Digest& digest) {
  std::int64_t number = 0;
  std::memcpy(&number, digest.bytes.data(), sizeof number);
  return number;
}

/// -sum(weight * log p): divided by the step's whole weight it is the loss, however the step is cut
/// up.
at::Tensor weighted_loss(const at::Tensor& log_probs, const Batch& batch) {
  return -(log_probs * to_tensor(batch.weights, log_probs.device())).sum();
}

/// Dropout depends on the step and the pass's number in it alone, so that resuming repeats it.
std::optional<at::Generator> dropout_of(const Learner& learner, const SftRecipe& recipe, std::int64_t step,
                                        std::size_t pass) {
  if (!recipe.adapter || recipe.adapter->dropout == 0) return std::nullopt;
  const auto number = static_cast<std::uint64_t>(
      number_of(digest_of(fmt::format("dropout {} {} {}", recipe.seed, step, pass))));
  const at::Device device = learner.decoder().options().device;
  if (device.is_cpu()) return at::make_generator<at::CPUGeneratorImpl>(number);
  auto generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(number);
  return generator;
}

std::size_t in_shares(std::size_t count, std::size_t shares) { return (count + shares - 1) / shares; }

/// `rows` cut into passes of at most `at_once` rows, as many for each process, and all as long as
/// can be.
class Passes {
 public:
  Passes(std::span<const Row> rows, std::int64_t at_once, const Reducer& reducer)
      : rows_(rows),
        processes_(static_cast<std::size_t>(reducer.size())),
        rank_(static_cast<std::size_t>(reducer.rank())) {
    const std::size_t share = std::max<std::size_t>(1, in_shares(rows.size(), processes_));
    length_ = in_shares(share, in_shares(share, static_cast<std::size_t>(at_once)));
  }

  /// Calls `pass(number, rows)` for each that is this process's.
  template <class Pass>
  void each_of_mine(const Pass& pass) const {
    for (std::size_t number = rank_; number * length_ < rows_.size(); number += processes_) {
      const std::size_t first = number * length_;
      pass(number, rows_.subspan(first, std::min(length_, rows_.size() - first)));
    }
  }

 private:
  std::span<const Row> rows_;
  std::size_t processes_, rank_, length_ = 1;
};

/// Whether it is so in any process.
Result<bool> in_any(Reducer& reducer, bool here) {
  std::array<at::Tensor, 1> count{at::full({1}, here ? 1 : 0, at::kLong)};
  LATHE_CHECK_OK(reducer.sum(count));
  return count[0].item<std::int64_t>() > 0;
}

}  // namespace

double mean_loss(const Learner& learner, const Dataset& data, std::int64_t row_tokens,
                 std::int64_t rows_at_once) {
  SoloReducer alone;
  return mean_loss(learner, data, row_tokens, rows_at_once, alone).value();
}

Result<double> mean_loss(const Learner& learner, const Dataset& data, std::int64_t row_tokens,
                         std::int64_t rows_at_once, Reducer& reducer) {
  const at::NoGradGuard no_grad;
  std::vector<std::size_t> order(data.examples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rows = pack(order, lengths_of(data), row_tokens);
  std::array<at::Tensor, 1> sum{at::zeros({1}, at::kDouble)};
  Passes(rows, rows_at_once, reducer).each_of_mine([&](std::size_t, std::span<const Row> some) {
    const Batch batch = make_batch(data.examples, some);
    sum[0].add_(weighted_loss(learner.scorer().log_probs(batch, std::nullopt), batch).item<double>());
  });
  LATHE_CHECK_OK(reducer.sum(sum));
  return sum[0].item<double>() / weight_of(data, rows);
}

Result<SftOutcome> run_sft(const SftRun& run, Learner& learner, Reducer& reducer) {
  const SftRecipe& recipe = run.recipe;
  const bool leader = reducer.rank() == 0;
  const std::string checkpoint = run.folder + "/checkpoint";
  const auto plan = plan_steps(lengths_of(run.train), {.row_length = recipe.row_tokens,
                                                       .rows_per_step = recipe.rows,
                                                       .epochs = recipe.epochs,
                                                       .steps = recipe.steps,
                                                       .seed = recipe.seed});
  const auto steps = static_cast<std::int64_t>(plan.size());
  const rl::Schedule schedule{
      .peak = recipe.learning_rate,
      .warmup_steps = std::llround(recipe.warmup_fraction * static_cast<double>(steps)),
      .steps = steps,
      .decay = recipe.decay,
      .final_fraction = recipe.final_fraction};

  RunState state{.identity = {.recipe = recipe.digest(),
                              .data = run.train.digest,
                              .parameters = learner.parameters().layout(),
                              .precision = std::string(name_of(learner.decoder().options().precision)),
                              .threads = at::get_num_threads(),
                              .processes = reducer.size()}};
  if (run.resume) {
    LATHE_TRY(const auto saved, resume_run(checkpoint, state.identity, learner));
    if (saved) state = *saved;
  }
  LATHE_TRY(JsonLinesFile metrics,
            JsonLinesFile::open(leader ? run.folder + "/metrics.jsonl" : "/dev/null", state.metrics_bytes));
  const auto check_equal_weights = [&] {
    return reducer.size() > 1 ? check_equal(reducer, learner.fingerprint(), "weights") : Ok{};
  };
  LATHE_CHECK_OK(check_equal(reducer, number_of(run.train.digest), "data"));
  LATHE_CHECK_OK(check_equal(reducer, state.steps_done, "checkpoints"));
  LATHE_CHECK_OK(check_equal_weights());
  const auto save = [&]() -> Status {
    LATHE_CHECK_OK(check_equal_weights());
    if (!leader) return Ok{};
    state.metrics_bytes = metrics.bytes();
    return save_run(checkpoint, state, learner);
  };

  SftOutcome outcome{.steps_done = state.steps_done, .steps = steps};
  const auto evaluate = [&]() -> Status {
    if (!run.held_out) return Ok{};
    LATHE_TRY(outcome.held_out_loss,
              mean_loss(learner, *run.held_out, recipe.row_tokens, recipe.rows_at_once, reducer));
    if (run.on_evaluation) run.on_evaluation(state.steps_done, outcome.held_out_loss);
    return metrics.write({{"step", state.steps_done}, {"held_out_loss", outcome.held_out_loss}});
  };
  const auto due = [&](std::int64_t every) { return every > 0 && state.steps_done % every == 0; };

  while (state.steps_done < steps) {
    const auto begin = std::chrono::steady_clock::now();
    const std::int64_t index = state.steps_done;
    const Step& step = plan[static_cast<std::size_t>(index)];
    const double weight = weight_of(run.train, step.rows);
    StepMetrics measured{
        .step = index + 1, .steps = steps, .epoch = step.epoch, .learning_rate = schedule.at(index)};

    // loss[0]; the numbers of tokens ride along so that one sum serves all.
    at::Tensor sums =
        at::zeros({3}, at::TensorOptions(at::kDouble).device(learner.decoder().options().device));
    Passes(step.rows, recipe.rows_at_once, reducer)
        .each_of_mine([&](std::size_t number, std::span<const Row> rows) {
          const Batch batch = make_batch(run.train.examples, rows);
          const at::Tensor log_probs =
              learner.scorer().log_probs(batch, dropout_of(learner, recipe, index, number));
          const at::Tensor loss = weighted_loss(log_probs, batch) / weight;
          learner.backward(loss);
          sums[0].add_(loss.detach());
          sums[1].add_(static_cast<double>(batch.tokens.size()));
          sums[2].add_(static_cast<double>(batch.targets.size()));
        });
    std::vector<at::Tensor> shared = learner.parameters().gradients();
    shared.push_back(sums);
    LATHE_CHECK_OK(reducer.sum(shared));
    measured.gradient_norm = learner.parameters().clip(recipe.clip_norm);
    const at::Tensor totals = sums.cpu();
    measured.loss = totals[0].item<double>();
    if (!std::isfinite(measured.loss) || !std::isfinite(measured.gradient_norm))
      return Error{ErrorCode::kInternal,
                   fmt::format("step {}: the loss is {} and the gradient's norm {}", index + 1, measured.loss,
                               measured.gradient_norm),
                   "lower the learning rate; the last checkpoint is from before"};
    learner.parameters().update(recipe.optimizer, measured.learning_rate, index);

    ++state.steps_done;
    measured.tokens = totals[1].item<std::int64_t>();
    measured.predicted_tokens = totals[2].item<std::int64_t>();
    measured.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    outcome.steps_done = state.steps_done;
    outcome.last_loss = measured.loss;
    LATHE_CHECK_OK(metrics.write({{"step", measured.step},
                                  {"epoch", measured.epoch},
                                  {"loss", measured.loss},
                                  {"gradient_norm", measured.gradient_norm},
                                  {"learning_rate", measured.learning_rate},
                                  {"tokens", measured.tokens},
                                  {"predicted_tokens", measured.predicted_tokens},
                                  {"seconds", measured.seconds}}));
    if (run.on_step) run.on_step(measured);
    const bool last = state.steps_done == steps;
    if (last || due(recipe.evaluate_every)) LATHE_CHECK_OK(evaluate());
    LATHE_TRY(const bool stop, in_any(reducer, run.cancel.cancelled()));
    outcome.cancelled = stop && !last;
    if (last || outcome.cancelled || due(recipe.checkpoint_every)) LATHE_CHECK_OK(save());
    if (outcome.cancelled) return outcome;
  }
  if (leader) LATHE_CHECK_OK(learner.write_result(run.folder, run.base_name));
  return outcome;
}

}  // namespace lathe::train
