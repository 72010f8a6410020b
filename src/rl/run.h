#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "rl/actor.h"
#include "rl/recipe.h"

namespace lathe::rl {

/// One line of metrics.jsonl.
struct StepMetrics {
  std::int64_t step = 0;  ///< from 1
  std::int64_t steps = 0;
  double reward = 0;                               ///< mean over answers of which something is known
  double pass_rate = 0;                            ///< of these
  double log_speedup_low = 0;                      ///< mean natural logarithm over those that passed
  std::map<std::string, std::int64_t> kinds = {};  ///< tasks that were drawn, by name(TaskKind)
  std::map<std::string, std::int64_t> outcomes = {};
  std::map<std::string, std::int64_t> hacks = {};  ///< TAMPERED answers, by reason
  bool naive_asked = false;                        ///< what a grader without defences makes of the answers
  std::int64_t naive_accepted = 0;                 ///< as right
  std::int64_t naive_deceived = 0;                 ///< though the gym's verdict is another than PASS
  std::int64_t lost = 0;                           ///< answers that the machine failed on: dropped
  std::int64_t cut = 0;    ///< answers that were as long as they may be before they ended: failures
  double tokens = 0;       ///< mean of an answer
  double kept_tokens = 1;  ///< share that the filters left in the loss
  double mismatch = 0;     ///< mean |log p_train - log p_rollout| of a token
  double mismatch_kl = 0;  ///< of the rollouts from the trained weights
  /// Of the answers' tokens that count, before the step's updates, from the weights that the run
  /// began with, estimated by k3; 0 where the loss does not ask.
  double reference_kl = 0;
  double entropy = 0;  ///< mean of the distributions that answers were drawn from, in nats
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;  ///< mean over the step's updates, before clipping
  double rollout_seconds = 0, judging_seconds = 0, update_seconds = 0;
  double seconds = 0;  ///< of all
};

/// "step 3/200  reward 0.9312  pass 100.0%  speedup 1.021  entropy 2.113  mismatch 3.0e-07".
std::string progress_text(const StepMetrics& step);

struct RlRun {
  const RlRecipe& recipe;
  std::vector<std::size_t> tasks;  ///< of the gym, to be trained on
  Digest gym;                      ///< names what the gym judges by: a resumed run needs the same
  std::string folder;              ///< of checkpoint.json, metrics.jsonl, samples.jsonl and the result
  bool resume = false;
  CancelToken cancel = {};
  std::function<void(const StepMetrics&)> on_step = {};
};

struct RlOutcome {
  std::int64_t steps_done = 0;
  bool cancelled = false;  ///< saved, and to be resumed
};

/// The whole loop: draw tasks, roll out, judge, reward, estimate, filter, update, log, save. Every
/// draw follows from the recipe's seed and the step's number, so a resumed run goes on as if it had
/// never ended. A step that ends before its update, by the cancel token or an error, is dropped;
/// what was before it is saved.
Result<RlOutcome> run_rl(const RlRun& run, Actor& actor, Gym& gym);

}  // namespace lathe::rl
