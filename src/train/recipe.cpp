#include "train/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "task/toml_section.h"

namespace lathe::train {
namespace {

constexpr std::int64_t kMostCount = 1'000'000'000;

Status read_model(const TomlTable& root, SftRecipe& recipe) {
  LATHE_TRY(const TomlSection model, TomlSection::open(root, "model", {"path", "precision"}));
  LATHE_CHECK_OK(model.read("path", recipe.model));
  LATHE_TRY(recipe.precision, read_precision(model));
  return Ok{};
}

Status read_data(const TomlTable& root, SftRecipe& recipe) {
  LATHE_TRY(const TomlSection data, TomlSection::open(root, "data", {"train", "held_out", "chat", "system"}));
  LATHE_CHECK_OK(data.read("train", recipe.train_data));
  LATHE_CHECK_OK(data.read("held_out", recipe.held_out_data));
  LATHE_CHECK_OK(data.read("chat", recipe.chat));
  return data.read("system", recipe.system);
}

Status read_adapter_options(const TomlTable& root, SftRecipe& recipe) {
  LATHE_TRY(recipe.adapter, read_adapter_table(root));
  return Ok{};
}

Status read_steps(const TomlTable& root, SftRecipe& recipe) {
  LATHE_TRY(
      const TomlSection steps,
      TomlSection::open(root, "steps", {"row_tokens", "rows", "rows_at_once", "epochs", "steps", "seed"}));
  LATHE_CHECK_OK(steps.read("row_tokens", recipe.row_tokens, 2, 1 << 20));
  LATHE_CHECK_OK(steps.read("rows", recipe.rows, 1, 1 << 20));
  recipe.rows_at_once = recipe.rows;
  LATHE_CHECK_OK(steps.read("rows_at_once", recipe.rows_at_once, 1, recipe.rows));
  LATHE_CHECK_OK(steps.read("epochs", recipe.epochs, 1, kMostCount));
  LATHE_CHECK_OK(steps.read("steps", recipe.steps, 1, kMostCount));
  auto seed = static_cast<std::int64_t>(recipe.seed);
  LATHE_CHECK_OK(steps.read("seed", seed, 0, INT64_MAX));
  recipe.seed = static_cast<std::uint64_t>(seed);
  return Ok{};
}

Status read_optimizer(const TomlTable& root, SftRecipe& recipe) {
  LATHE_TRY(const TomlSection optimizer,
            TomlSection::open(root, "optimizer",
                              {"learning_rate", "warmup_fraction", "decay", "final_fraction", "beta1",
                               "beta2", "epsilon", "weight_decay", "clip_norm"}));
  LATHE_CHECK_OK(optimizer.read("learning_rate", recipe.learning_rate, 0, 10));
  LATHE_CHECK_OK(optimizer.read("warmup_fraction", recipe.warmup_fraction, 0, 1));
  LATHE_CHECK_OK(optimizer.read("final_fraction", recipe.final_fraction, 0, 1));
  LATHE_CHECK_OK(optimizer.read("beta1", recipe.optimizer.beta1, 0, 0.999999));
  LATHE_CHECK_OK(optimizer.read("beta2", recipe.optimizer.beta2, 0, 0.999999));
  LATHE_CHECK_OK(optimizer.read("epsilon", recipe.optimizer.epsilon, 1e-30, 1));
  LATHE_CHECK_OK(optimizer.read("weight_decay", recipe.optimizer.weight_decay, 0, 10));
  LATHE_CHECK_OK(optimizer.read("clip_norm", recipe.clip_norm, 0, 1e9));
  if (!optimizer.present()) return Ok{};
  LATHE_TRY(const std::string decay, optimizer.table().choice("decay", {"cosine", "constant"}));
  LATHE_TRY(recipe.decay, rl::parse_decay(decay));
  return Ok{};
}

}  // namespace

Result<std::optional<lm::Precision>> read_precision(const TomlSection& section) {
  std::string precision;
  LATHE_CHECK_OK(section.read("precision", precision));
  if (precision.empty()) return std::optional<lm::Precision>();
  if (precision == "f32") return std::optional(lm::Precision::kF32);
  if (precision == "bf16") return std::optional(lm::Precision::kBF16);
  return invalid(fmt::format("'precision' is '{}', not f32 or bf16", precision), {},
                 section.table().where("precision"));
}

Result<std::optional<LowRankOptions>> read_adapter_table(const TomlTable& root) {
  LATHE_TRY(const TomlSection adapter,
            TomlSection::open(root, "adapter", {"rank", "alpha", "dropout", "targets", "bits"}));
  if (!adapter.present()) return std::optional<LowRankOptions>();
  LowRankOptions options;
  LATHE_CHECK_OK(adapter.read("rank", options.rank, 1, 4096));
  LATHE_CHECK_OK(adapter.read("alpha", options.alpha, 1e-6, 1e6));
  LATHE_CHECK_OK(adapter.read("dropout", options.dropout, 0, 0.99));
  LATHE_CHECK_OK(adapter.read("bits", options.bits, 16, 32));
  if (options.bits != 16 && options.bits != 32)
    return invalid(fmt::format("'bits' is {}, not 16 or 32", options.bits), {},
                   adapter.table().where("bits"));
  LATHE_TRY(options.targets, adapter.table().texts("targets"));
  const auto matrices = lm::adaptable_matrices({});
  if (options.targets.empty())
    for (const auto& matrix : matrices) options.targets.emplace_back(matrix.name);
  for (const std::string& target : options.targets)
    if (std::ranges::find(matrices, target, &lm::AdaptableMatrix::name) == matrices.end())
      return invalid(fmt::format("there is no matrix '{}' to adapt", target),
                     "there are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
                     adapter.table().where("targets"));
  return std::optional(std::move(options));
}

Digest SftRecipe::digest() const {
  const std::string adapted = adapter ? fmt::format("{} {} {} {}", adapter->rank, adapter->alpha,
                                                    adapter->dropout, fmt::join(adapter->targets, " "))
                                      : "all";
  return digest_of(fmt::format("{} | {} {} {} {} {} {} | {} {} {} {} | {} {} {} {} {}", adapted, row_tokens,
                               rows, rows_at_once, epochs, steps, seed, optimizer.beta1, optimizer.beta2,
                               optimizer.epsilon, optimizer.weight_decay, learning_rate, warmup_fraction,
                               static_cast<int>(decay), final_fraction, clip_norm));
}

Result<SftRecipe> parse_sft_recipe(std::string_view text, const std::string& file) {
  LATHE_TRY(const TomlDocument document, TomlDocument::parse(text, {file, 0, 0}));
  const TomlTable root = document.root();
  LATHE_CHECK_OK(root.allow_only({"model", "data", "adapter", "steps", "optimizer", "output"}, "a recipe"));
  SftRecipe recipe;
  for (const auto read : {read_model, read_data, read_adapter_options, read_steps, read_optimizer})
    LATHE_CHECK_OK(read(root, recipe));
  LATHE_TRY(const TomlSection output,
            TomlSection::open(root, "output", {"checkpoint_every", "evaluate_every"}));
  LATHE_CHECK_OK(output.read("checkpoint_every", recipe.checkpoint_every, 0, kMostCount));
  LATHE_CHECK_OK(output.read("evaluate_every", recipe.evaluate_every, 0, kMostCount));
  return recipe;
}

}  // namespace lathe::train
