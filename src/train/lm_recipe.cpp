#include "train/lm_recipe.h"

#include <fmt/format.h>

#include "rl/table.h"
#include "task/toml_section.h"
#include "train/recipe.h"

namespace lathe::train {
namespace {

Status read_kernels(const TomlTable& root, LmRecipe& recipe) {
  if (!root.has("kernels")) {
    if (recipe.rl.turns > 1)
      return invalid("a table has no prompts that show earlier kernels", "take turns = 1", root.where("rl"));
    if (const auto told = rl::check_told_by_table(recipe.rl.reward); !told.ok())
      return invalid(told.error().message, told.error().hint, root.where("rl"));
    return Ok{};
  }
  LATHE_TRY(const TomlSection kernels,
            TomlSection::open(root, "kernels", {"answer_tokens", "prompt_tokens", "naive"}));
  KernelRecipe& read = recipe.kernels.emplace();
  LATHE_CHECK_OK(kernels.read("answer_tokens", read.answer_tokens, 1, 1 << 20));
  LATHE_CHECK_OK(kernels.read("prompt_tokens", read.prompt_tokens, 1, 1 << 20));
  std::string naive = "off";
  LATHE_CHECK_OK(kernels.read("naive", naive));
  if (naive != "off" && naive != "asked" && naive != "pays")
    return invalid("'naive' is none of off, asked, pays", {}, kernels.table().where("naive"));
  read.naive_asked = naive != "off";
  recipe.rl.paid_by_naive = naive == "pays";
  constexpr const char* kUnmeasured = "which share of the time is the kernels' own no live gym measures";
  if (recipe.rl.reject_unlaunched)
    return invalid(kUnmeasured, "leave 'reject_unlaunched' out", root.where("filters"));
  if (recipe.rl.reward.needs == "launched_share")
    return invalid(kUnmeasured, "reward = \"dr_kernel\"", root.where("rl"));
  if (recipe.rl.entropy > 0)
    return invalid("the entropy of whole kernels is estimated and has no gradient", "leave 'entropy' out",
                   root.where("loss"));
  if (root.has("exam"))
    return invalid("no table is there to be examined on", "leave it out, and run lathe policy eval",
                   root.where("exam"));
  return Ok{};
}

}  // namespace

Result<LmRecipe> parse_lm_recipe(std::string_view text, const std::string& file) {
  LmRecipe recipe;
  LATHE_TRY(recipe.rl, rl::parse_rl_recipe(text, file));
  LATHE_TRY(const TomlDocument document, TomlDocument::parse(text, {file, 0, 0}));
  const TomlTable root = document.root();
  for (const char* table : {"actor", "imitation"})
    if (root.has(table))
      return invalid(fmt::format("a language model has no table '{}'", table),
                     "that is of a network of choices: leave it out", root.where(table));
  if (recipe.rl.exemplars > 0)
    return invalid("a language model is shown no exemplars", "take exemplars = 0", root.where("rl"));
  LATHE_CHECK_OK(read_kernels(root, recipe));
  LATHE_TRY(
      const TomlSection model,
      TomlSection::open(root, "model", {"path", "precision", "begin", "tokens_at_once", "answers_at_once"}));
  LATHE_CHECK_OK(model.read("path", recipe.model));
  LATHE_TRY(recipe.precision, read_precision(model));
  LATHE_CHECK_OK(model.read("begin", recipe.begin));
  LATHE_CHECK_OK(model.read("tokens_at_once", recipe.tokens_at_once, 2, 1 << 24));
  LATHE_CHECK_OK(model.read("answers_at_once", recipe.answers_at_once, 1, 4096));
  LATHE_TRY(recipe.adapter, read_adapter_table(root));
  if (recipe.adapter && recipe.adapter->dropout > 0)
    return invalid("'dropout' would part the probabilities of drawing and of training", "leave it out",
                   root.where("adapter"));
  return recipe;
}

}  // namespace lathe::train
