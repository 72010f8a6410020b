#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "lm/decoder.h"
#include "rl/recipe.h"
#include "train/low_rank.h"

namespace lathe::train {

/// Of answers that are whole kernels, which a live gym judges.
struct KernelRecipe {
  std::int64_t answer_tokens = 4096;  ///< what is longer is cut off, and a failure
  std::int64_t prompt_tokens = 8000;  ///< at most
  bool naive_asked = false;           ///< of each answer too, beside the gym
};

/// How a language model learns by reinforcement: recipes/rl/lm_*.toml (docs/rl.md).
struct LmRecipe {
  rl::RlRecipe rl;
  std::string model;  ///< as a supervised recipe has it
  std::optional<lm::Precision> precision;
  std::string begin;                      ///< a folder with the adapter that is trained on; empty: a new one
  std::optional<LowRankOptions> adapter;  ///< the new one; none: all weights are trained
  std::int64_t tokens_at_once = 16384;    ///< of a forward and backward pass
  std::int64_t answers_at_once = 64;      ///< that are drawn side by side
  std::optional<KernelRecipe> kernels;    ///< none: answers are schedules of a table
};

/// Errors: kInvalid, with line and column; also for what a language model cannot do.
Result<LmRecipe> parse_lm_recipe(std::string_view text, const std::string& file);

}  // namespace lathe::train
