#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

/// What a training run wrote, as texts; a last line that was cut is left out.
struct TrainingRun {
  std::string_view title;
  std::string_view metrics;  ///< metrics.jsonl
  std::string_view samples;  ///< samples.jsonl; empty for supervised training
};

/// A training run as one self-contained HTML page without scripts: its curves and, of reinforcement
/// learning, verdicts by step, attempts to deceive the gym by reason, where the seconds went, and
/// answers of some steps with their verdicts, to read. Everything that a model wrote is escaped.
/// Errors: kInvalid, the metrics hold no step.
Result<std::string> training_page(const TrainingRun& run);

}  // namespace lathe
