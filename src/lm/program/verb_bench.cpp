#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/output.h"
#include "base/random.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "lm/known_shapes.h"
#include "lm/program/options.h"
#include "model/checkpoint.h"

namespace lathe::lm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct BenchOptions {
  ModelOptions model;
  std::string architecture;
  std::int32_t context = 512;
  std::int32_t steps = 64;
  std::int32_t group = 0;  ///< > 0: also measure the engine as it is used
  float temperature = 1;
  float top_p = 1;
  std::string json;
};

/// Bytes per second that the device reads, of an array that no cache holds: the best of several
/// passes.
double read_bandwidth(at::Device device) {
  const std::int64_t bytes = device.is_cpu() ? std::int64_t{512} << 20 : std::int64_t{4} << 30;
  const at::Tensor array = at::ones({bytes / 4}, at::TensorOptions(at::kFloat).device(device));
  double best = 0;
  for (int pass = 0; pass < 6; ++pass) {
    const auto begin = Clock::now();
    (void)array.sum().item<float>();
    best = std::max(best, static_cast<double>(bytes) / seconds_since(begin));
  }
  return best;
}

struct Measured {
  double prefill_tokens_per_second = 0;
  double step_seconds = 0;       ///< median
  double tokens_per_second = 0;  ///< of all timed steps together
};

/// `batch` sequences of their own whose context grows from context - steps / 2 to context + steps / 2.
Result<Measured> measure(Runner& runner, const BenchOptions& options, std::int32_t batch,
                         std::int32_t vocab) {
  constexpr std::int32_t kWarmSteps = 8;
  const std::int32_t prompt = std::max(1, options.context - options.steps / 2 - kWarmSteps);
  Rng rng(Seed::from_number(1));
  std::vector<TokenId> tokens(static_cast<std::size_t>(prompt));
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng.below(static_cast<std::uint64_t>(vocab)));
  const std::int32_t each = pages_for(prompt + kWarmSteps + options.steps + runner.depth());
  std::vector<std::vector<std::int32_t>> pages;
  for (std::int32_t row = 0; row < batch; ++row) {
    auto& own = pages.emplace_back();
    for (std::int32_t i = 0; i < each; ++i) own.push_back(1 + row * each + i);
  }
  Measured measured;
  const auto begin = Clock::now();
  for (const auto& own : pages) runner.prefill(std::span(tokens).first(tokens.size() - 1), 0, own);
  for (std::int32_t row = 0; row < batch; ++row)
    runner.start_row(row, {.token = tokens.back(),
                           .position = prompt - 1,
                           .pages = pages[static_cast<std::size_t>(row)],
                           .sampling = {.temperature = options.temperature, .top_p = options.top_p},
                           .stream = static_cast<std::uint64_t>(row)});
  runner.launch(batch);
  LATHE_CHECK_OK(runner.collect());
  measured.prefill_tokens_per_second = static_cast<double>(prompt) * batch / seconds_since(begin);

  std::vector<double> times;
  std::int32_t under_way = 0, launched = 1;
  auto last = Clock::now(), first_timed = last;
  for (std::int32_t collected = 1; collected < kWarmSteps + options.steps; ++collected) {
    while (under_way < runner.depth() && launched < kWarmSteps + options.steps) {
      runner.launch(batch);
      ++under_way, ++launched;
    }
    LATHE_CHECK_OK(runner.collect());
    --under_way;
    const auto now = Clock::now();
    if (collected < kWarmSteps)
      first_timed = now;
    else
      times.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
  }
  measured.tokens_per_second =
      static_cast<double>(times.size()) * batch / std::chrono::duration<double>(last - first_timed).count();
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  measured.step_seconds = times[times.size() / 2];
  return measured;
}

/// Tokens per second of the engine as it is used: four batches of answers, in requests of `group`
/// samples that share a prompt of half the context; answers of 1/2 to 3/2 of the context end one by
/// one and make room.
Result<double> measure_engine(std::unique_ptr<Runner> runner, const RunnerOptions& runner_options,
                              const BenchOptions& options, std::int32_t vocab) {
  LocalEngineOptions engine_options{.runner = runner_options};
  engine_options.info = {
      .vocab = vocab, .context = runner_options.context, .max_batch = runner_options.max_batch};
  const auto engine = make_local_engine(std::move(runner), engine_options);
  Rng rng(Seed::from_number(2));
  std::vector<std::uint64_t> requests;
  const auto begin = Clock::now();
  for (std::int32_t answers = 0; answers < 4 * runner_options.max_batch; answers += options.group) {
    GenerationRequest request{
        .samples = options.group,
        .max_tokens =
            static_cast<std::int32_t>(rng.between(options.context / 2, options.context * 3 / 2)) + 1,
        .sampling = {.temperature = options.temperature, .top_p = options.top_p},
        .ignore_end = true};
    for (std::int32_t i = 0; i < options.context / 2 + 1; ++i)
      request.prompt.push_back(static_cast<TokenId>(rng.below(static_cast<std::uint64_t>(vocab))));
    LATHE_TRY(const std::uint64_t id, engine->submit(std::move(request)));
    requests.push_back(id);
  }
  double tokens = 0;
  for (const std::uint64_t request : requests)
    for (bool done = false; !done;) {
      LATHE_TRY(const GenerationNews news, engine->wait(request, 3600));
      for (const Sample& sample : news.samples) tokens += static_cast<double>(sample.tokens.size());
      done = news.done;
    }
  return tokens / seconds_since(begin);
}

Result<int> bench(const BenchOptions& options) {
  LATHE_TRY(OpenOptions open, options.model.parsed());
  LATHE_CHECK_OK(options.json.empty() || options.json == "-" ? Status(Ok{}) : check_output(options.json));
  LATHE_TRY(const DecoderOptions placement, choose_placement(open));
  std::shared_ptr<const Decoder> decoder;
  if (!options.architecture.empty()) {
    LATHE_TRY(const ModelConfig config, known_shape(options.architecture));
    decoder = std::make_shared<const Decoder>(Decoder::random(config, placement, 1));
  } else if (!options.model.model.empty()) {
    LATHE_TRY(const Checkpoint checkpoint, Checkpoint::open(options.model.model));
    LATHE_TRY(Decoder loaded, Decoder::load(checkpoint, placement));
    decoder = std::make_shared<const Decoder>(std::move(loaded));
  } else {
    return invalid("nothing to measure", "name a file with --model or a shape with --random");
  }
  const std::int32_t batch = open.max_batch;
  open.context = options.group > 0 ? options.context * 2 + 4 : options.context + options.steps;
  if (open.cache_bytes == 0)
    open.cache_bytes = (std::int64_t{pages_for(open.context) + 2} * batch + 1) * kPageTokens *
                       cache_bytes_per_token(*decoder);
  LATHE_TRY(const RunnerOptions runner_options, choose_runner(*decoder, open));
  LATHE_TRY(auto runner, make_runner(decoder, runner_options));
  const std::string device = runner->device();
  const auto vocab = static_cast<std::int32_t>(decoder->config().vocab);
  LATHE_TRY(const Measured measured, measure(*runner, options, batch, vocab));
  double engine_tokens_per_second = 0;
  if (options.group > 0) {
    for (std::int32_t row = 0; row < batch; ++row) runner->stop_row(row);
    LATHE_TRY(engine_tokens_per_second, measure_engine(std::move(runner), runner_options, options, vocab));
  }

  const double bandwidth = read_bandwidth(placement.device);
  const double bytes =
      static_cast<double>(decoder->weight_bytes()) +
      static_cast<double>(batch) * options.context * static_cast<double>(cache_bytes_per_token(*decoder));
  const double floor_seconds = bytes / bandwidth;
  const nlohmann::json document = {
      {"model", options.architecture.empty() ? options.model.model : "random " + options.architecture},
      {"device", device},
      {"precision", std::string(name_of(placement.precision))},
      {"batch", batch},
      {"mean_context", options.context},
      {"temperature", options.temperature},
      {"top_p", options.top_p},
      {"tokens_per_second", measured.tokens_per_second},
      {"group", options.group},
      {"engine_tokens_per_second", engine_tokens_per_second},
      {"step_ms", measured.step_seconds * 1e3},
      {"prefill_tokens_per_second", measured.prefill_tokens_per_second},
      {"bytes_per_step", bytes},
      {"bandwidth_gb_per_second", bandwidth * 1e-9},
      {"floor_step_ms", floor_seconds * 1e3},
      {"floor_tokens_per_second", batch / floor_seconds}};
  cli::print("{}, {} on {}, batch {}, mean context {}\n", document["model"].get<std::string>(),
             name_of(placement.precision), device, batch, options.context);
  cli::print("  {:.0f} tokens/s, a step {:.3f} ms; prompts {:.0f} tokens/s\n", measured.tokens_per_second,
             measured.step_seconds * 1e3, measured.prefill_tokens_per_second);
  if (options.group > 0)
    cli::print("  {:.0f} tokens/s with prompts, ends and refills, {} answers a prompt\n",
               engine_tokens_per_second, options.group);
  cli::print("  floor: {:.1f} MB a step at {:.0f} GB/s: {:.3f} ms, {:.0f} tokens/s ({:.0f}% of it reached)\n",
             bytes * 1e-6, bandwidth * 1e-9, floor_seconds * 1e3, batch / floor_seconds,
             100 * measured.tokens_per_second * floor_seconds / batch);
  if (options.json == "-")
    cli::print_json(document);
  else if (!options.json.empty())
    LATHE_CHECK_OK(write_output(options.json, document.dump(2) + "\n"));
  return static_cast<int>(cli::kSuccess);
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  const auto options = std::make_shared<BenchOptions>();
  options->model.open.max_batch = 16;
  CLI::App& verb =
      *app.add_subcommand("bench", "measure tokens per second beside what the memory's bandwidth allows");
  auto* const model =
      verb.add_option("--model", options->model.model, "a GGUF file, or a folder of safetensors");
  verb.add_option("--random", options->architecture, "random weights instead: smollm2-135m or qwen2.5-0.5b")
      ->excludes(model);
  add_model_options(verb, options->model);
  verb.add_option("--context", options->context, "tokens before the drawn one, on average")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--steps", options->steps, "that are timed")
      ->check(CLI::Range(2, 1 << 16))
      ->capture_default_str();
  verb.add_option("--group", options->group, "also measure whole requests, of this many answers to a prompt")
      ->check(CLI::Range(1, 4096));
  verb.add_option("--temperature", options->temperature, "of the drawing")->capture_default_str();
  verb.add_option("--top-p", options->top_p, "of the drawing")->capture_default_str();
  verb.add_option("--json", options->json, "also write JSON to this file; - is standard output");
  verb.callback([options, &run] {
    run = [options] {
      const auto code = bench(*options);
      return code.ok() ? *code : cli::fail(code.error());
    };
  });
}

}  // namespace lathe::lm
