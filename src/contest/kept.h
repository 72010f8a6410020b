#pragma once

#include <string>

#include "store/store.h"

namespace lathe {

/// Which samples of a contest a model learns from: rejection sampling.
struct KeepOptions {
  double near_best = 0.9;  ///< of the entrant's best lower bound at the task; 0: all that are correct
  int most = 4;            ///< of a task, the fastest first; none has another's text
};

struct Kept {
  std::string lines;  ///< JSON Lines for training: token ids as they were sampled, with their probabilities
  int examples = 0;
  int tasks = 0;    ///< with at least one
  int samples = 0;  ///< that were looked at
};

/// Successes of an entrant that is a model. Errors: kNotFound, the contest has no samples of it
/// that hold their tokens.
Result<Kept> keep_successes(Store& store, const std::string& contest, const std::string& entrant,
                            const KeepOptions& options);

}  // namespace lathe
