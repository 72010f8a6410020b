#include "train/program/bench.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/output.h"
#include "base/random.h"
#include "cli/console.h"
#include "lm/known_shapes.h"
#include "train/flops.h"
#include "train/learner.h"

namespace lathe::train {
namespace {

constexpr int kWarmSteps = 3;
constexpr double kDensePeakH200 = 989.5e12;  // bf16, without sparsity: NVIDIA's data sheet

Batch random_batch(const BenchOptions& options, std::int64_t vocab) {
  Rng rng(Seed::from_number(1));
  std::vector<Example> examples;
  Row row;
  for (std::int64_t tokens = 0; tokens + options.length <= options.tokens; tokens += options.length) {
    Example example;
    for (std::int64_t i = 0; i < options.length; ++i)
      (i == 0 ? example.prompt : example.answer)
          .push_back(static_cast<TokenId>(rng.below(static_cast<std::uint64_t>(vocab))));
    example.weights.assign(example.answer.size(), 1.0F);
    row.push_back(examples.size());
    examples.push_back(std::move(example));
  }
  return make_batch(examples, std::vector<Row>{row});
}

}  // namespace

Status bench_training(const BenchOptions& options, const lm::DecoderOptions& placement,
                      const TokenKernels& kernels) {
  LATHE_TRY(const ModelConfig config, lm::known_shape(options.shape));
  std::optional<LowRankOptions> adapter;
  if (options.adapter) {
    adapter.emplace();
    for (const auto& matrix : lm::adaptable_matrices(config)) adapter->targets.emplace_back(matrix.name);
  }
  LATHE_TRY(Learner learner, Learner::create(lm::Decoder::random(config, placement, 1), adapter, 1));
  learner.use(kernels);
  const Batch batch = random_batch(options, config.vocab);
  if (batch.targets.empty())
    return invalid("no example fits", "give --bench-tokens of at least --bench-length");
  // An adapter's backward pass leaves out the weights' own gradients.
  const double flops = training_flops(config, batch) * (options.adapter ? 2.0 / 3 : 1);

  std::vector<double> times;
  double loss = 0;
  for (int step = 0; step < kWarmSteps + options.steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    const at::Tensor mean = -learner.scorer().log_probs(batch, std::nullopt).mean();
    learner.backward(mean);
    learner.parameters().clip(1);
    learner.parameters().update({}, 1e-4, step);
    // Reading a number of the step's end waits for the device.
    loss = mean.item<double>() + 0 * learner.parameters().gradients()[0][0].item<double>();
    if (step >= kWarmSteps)
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(times);
  const double seconds = times[times.size() / 2];
  const double rate = flops / seconds;
  const nlohmann::json document = {{"model", "random " + options.shape},
                                   {"adapter", options.adapter},
                                   {"device", placement.device.str()},
                                   {"precision", std::string(name_of(placement.precision))},
                                   {"tokens_per_step", batch.tokens.size()},
                                   {"example_tokens", options.length},
                                   {"step_ms", seconds * 1e3},
                                   {"fastest_step_ms", times.front() * 1e3},
                                   {"tokens_per_second", static_cast<double>(batch.tokens.size()) / seconds},
                                   {"tflops", rate * 1e-12},
                                   {"loss", loss}};
  cli::print("random {}{}, {} on {}: {} tokens a step, examples of {}\n", options.shape,
             options.adapter ? " with an adapter" : "", name_of(placement.precision), placement.device.str(),
             batch.tokens.size(), options.length);
  cli::print("  {:.2f} ms a step, {:.0f} tokens/s, {:.1f} TFLOP/s ({:.1f}% of an H200's dense bf16 peak)\n",
             seconds * 1e3, static_cast<double>(batch.tokens.size()) / seconds, rate * 1e-12,
             100 * rate / kDensePeakH200);
  if (options.json == "-")
    cli::print_json(document);
  else if (!options.json.empty())
    return write_output(options.json, document.dump(2) + "\n");
  return Ok{};
}

}  // namespace lathe::train
