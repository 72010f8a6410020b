#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/digest.h"
#include "base/result.h"
#include "lm/decoder.h"
#include "rl/schedule.h"
#include "train/low_rank.h"
#include "train/parameters.h"

namespace lathe {
class TomlSection;
class TomlTable;
}  // namespace lathe

namespace lathe::train {

/// What a supervised run does: recipes/sft/*.toml (docs/training.md).
struct SftRecipe {
  std::string model;  ///< a file or folder; or a known shape with random weights: "random:smollm2-135m"
  std::optional<lm::Precision> precision;  ///< of the computation; default: f32 on a CPU, bf16 on a GPU

  std::string train_data, held_out_data;
  bool chat = true;  ///< prompts are put into the model's own chat template, if it has one
  std::string system;

  std::optional<LowRankOptions> adapter;  ///< none: all weights are trained

  std::int64_t row_tokens = 2048;
  std::int64_t rows = 8;          ///< of an update
  std::int64_t rows_at_once = 8;  ///< of a forward and backward pass; their gradients add up
  std::int64_t epochs = 1;
  std::int64_t steps = 0;  ///< instead of epochs
  std::uint64_t seed = 1;

  AdamW optimizer;
  double learning_rate = 1e-4;
  double warmup_fraction = 0.03;
  rl::Decay decay = rl::Decay::kCosine;
  double final_fraction = 0.1;
  double clip_norm = 1;  ///< 0: gradients are not clipped

  std::int64_t checkpoint_every = 100;  ///< steps; 0: at the end only
  std::int64_t evaluate_every = 100;    ///< steps; 0: at the end only

  /// Of all that decides the weights that come out, data and model apart.
  Digest digest() const;
};

/// Of a recipe's table [adapter]; nothing where there is none.
Result<std::optional<LowRankOptions>> read_adapter_table(const TomlTable& root);
/// 'precision' of a table.
Result<std::optional<lm::Precision>> read_precision(const TomlSection& section);

/// Errors: kInvalid, with line and column.
Result<SftRecipe> parse_sft_recipe(std::string_view text, const std::string& file);

}  // namespace lathe::train
