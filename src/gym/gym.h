#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/events.h"
#include "base/random.h"
#include "candidate/candidate.h"
#include "gym/evaluator.h"

namespace lathe {

struct GymOptions {
  /// Draws hidden shapes, inputs and checked places; never stored or shown.
  Seed secret = Seed::from_system();
  int build_workers = 0;  ///< 0: as many as the machine allows
  int lanes = 0;          ///< evaluations that verify or time at once; 0: as many as the device serves well
  int hidden_shapes = 3;
  bool inspect_code = false;  ///< at every depth, not only final and profile
  double build_timeout_seconds = 30;
  double block_timeout_seconds = 20;
  double screen_timeout_seconds = 120;  ///< of a whole evaluation once its build is done: TIMEOUT
  double final_timeout_seconds = 600;   ///< the same at `final` and `profile`
  int requests_of_client = 1 << 16;     ///< unfinished ones, before submit() says kBusy
  /// Host memory of prepared tasks, beyond which the longest unused of the idle ones go, and no
  /// further one is prepared beside those in use; 0: half of the machine's. So it is with a quarter
  /// of the device's.
  std::int64_t task_memory_bytes = 0;
  /// Kernels of Lathe's own for a task, never a policy's, that screens are timed against where
  /// every peer is far slower: a slow opponent costs time. No speedup is reported over them, and a
  /// final never meets them.
  std::function<std::vector<Candidate>(const TaskSpec&)> anchors = {};
  CancelToken cancel = {};  ///< ends everything
};

/// Judges candidates of many tasks on one device. Tasks are prepared when they are first needed and
/// kept by digest; builds run on workers, evaluations on lanes, and the device's lane says who may
/// time.
class Gym {
 public:
  /// `backend` and `events` must outlive it; events come from several threads.
  static std::unique_ptr<Gym> start(Backend& backend, const GymOptions& options, EventSink& events);
  virtual ~Gym() = default;
  /// A client, which must not outlive the gym.
  virtual std::unique_ptr<Evaluator> connect() = 0;
};

}  // namespace lathe
