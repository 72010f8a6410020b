#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

/// A training run's curves as a standalone SVG file, or as an element of a page: of supervised
/// training the loss of each step, smoothed over some, the held-out loss, and the norm of the
/// gradients; of reinforcement learning reward, speedup, pass rate, entropy, mismatch and what the
/// filters left. `metrics` is the text of metrics.jsonl; a last line that was cut is left out.
/// Errors: kInvalid, it holds no step.
enum class ChartPlace { kFile, kPage };
Result<std::string> training_chart(std::string_view metrics, std::string_view title,
                                   ChartPlace place = ChartPlace::kFile);

}  // namespace lathe
