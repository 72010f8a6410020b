#include "train/sft.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

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

/// -sum(weight * log p): divided by the step's whole weight it is the loss, however the step is cut
/// up.
at::Tensor weighted_loss(const at::Tensor& log_probs, const Batch& batch) {
  return -(log_probs * to_tensor(batch.weights, log_probs.device())).sum();
}

/// Dropout depends on the step and the batch's place in it alone, so that resuming repeats it.
std::optional<at::Generator> dropout_of(const Learner& learner, const SftRecipe& recipe, std::int64_t step,
                                        std::size_t part) {
  if (!recipe.adapter || recipe.adapter->dropout == 0) return std::nullopt;
  const Digest seed = digest_of(fmt::format("dropout {} {} {}", recipe.seed, step, part));
  std::uint64_t number = 0;
  std::memcpy(&number, seed.bytes.data(), sizeof number);
  const at::Device device = learner.decoder().options().device;
  if (device.is_cpu()) return at::make_generator<at::CPUGeneratorImpl>(number);
  auto generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(number);
  return generator;
}

}  // namespace

double mean_loss(const Learner& learner, const Dataset& data, std::int64_t row_tokens,
                 std::int64_t rows_at_once) {
  const at::NoGradGuard no_grad;
  std::vector<std::size_t> order(data.examples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rows = pack(order, lengths_of(data), row_tokens);
  double sum = 0;
  const auto share = static_cast<std::size_t>(rows_at_once);
  for (std::size_t first = 0; first < rows.size(); first += share) {
    const Batch batch =
        make_batch(data.examples, std::span(rows).subspan(first, std::min(share, rows.size() - first)));
    sum += weighted_loss(learner.log_probs(batch, std::nullopt), batch).item<double>();
  }
  return sum / weight_of(data, rows);
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
  const Schedule schedule{.peak = recipe.learning_rate,
                          .warmup_steps = std::llround(recipe.warmup_fraction * static_cast<double>(steps)),
                          .steps = steps,
                          .decay = recipe.decay,
                          .final_fraction = recipe.final_fraction};

  RunState state{.identity = {.recipe = recipe.digest(),
                              .data = run.train.digest,
                              .parameters = learner.parameters().layout(),
                              .precision = std::string(name_of(learner.decoder().options().precision)),
                              .threads = at::get_num_threads()}};
  if (run.resume) {
    LATHE_TRY(const auto saved, resume_run(checkpoint, state.identity, learner));
    if (saved) state = *saved;
  }
  LATHE_TRY(JsonLinesFile metrics,
            JsonLinesFile::open(leader ? run.folder + "/metrics.jsonl" : "/dev/null", state.metrics_bytes));
  const auto save = [&]() -> Status {
    if (!leader) return Ok{};
    state.metrics_bytes = metrics.bytes();
    return save_run(checkpoint, state, learner);
  };

  SftOutcome outcome{.steps_done = state.steps_done, .steps = steps};
  const auto evaluate = [&]() -> Status {
    if (!run.held_out) return Ok{};
    outcome.held_out_loss = mean_loss(learner, *run.held_out, recipe.row_tokens, recipe.rows_at_once);
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
    const auto share = static_cast<std::size_t>(recipe.rows_at_once);
    for (std::size_t part = 0, first = 0; first < step.rows.size(); ++part, first += share) {
      if (part % static_cast<std::size_t>(reducer.size()) != static_cast<std::size_t>(reducer.rank()))
        continue;
      const Batch batch = make_batch(
          run.train.examples, std::span(step.rows).subspan(first, std::min(share, step.rows.size() - first)));
      const at::Tensor log_probs = learner.log_probs(batch, dropout_of(learner, recipe, index, part));
      const at::Tensor loss = weighted_loss(log_probs, batch) / weight;
      learner.backward(loss);
      sums[0].add_(loss.detach());
      sums[1].add_(static_cast<double>(batch.tokens.size()));
      sums[2].add_(static_cast<double>(batch.targets.size()));
    }
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
    outcome.cancelled = run.cancel.cancelled() && !last;
    if (last || outcome.cancelled || due(recipe.checkpoint_every)) LATHE_CHECK_OK(save());
    if (outcome.cancelled) return outcome;
  }
  if (leader) LATHE_CHECK_OK(learner.write_result(run.folder, run.base_name));
  return outcome;
}

}  // namespace lathe::train
