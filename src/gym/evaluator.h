#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "candidate/candidate.h"
#include "record/verdict.h"
#include "task/spec.h"

namespace lathe {

/// One candidate to judge. The text is whatever a policy wrote: text that nobody can read gets a
/// verdict too (BUILD_FAILED, "bad_candidate").
struct EvaluationRequest {
  std::shared_ptr<const TaskSpec> task;
  std::string text;
  std::string name = {};  ///< of the file, for messages; empty: the text's digest
  Depth depth = Depth::kScreen;
  int priority = 0;             ///< higher goes first; equals go in order of submission
  double deadline_seconds = 0;  ///< from submission on; 0: none
  CancelToken cancel = {};      ///< once raised, the request ends with kCancelled
  /// Why the text's author knows already that it is no candidate: what the verdict will say.
  std::optional<Error> unreadable = {};
};

/// Names a request of one evaluator.
using Ticket = std::int64_t;

/// What became of a request. An error is never the candidate's: kCancelled, kTimeout for a missed
/// deadline, or what keeps its task from being prepared.
struct Evaluated {
  Ticket ticket = 0;
  Result<Verdict> verdict;
};

/// The time of one verified peer at each scored shape.
struct BaselineTime {
  std::string name;
  double median_ns = 0;  ///< geometric mean over the scored shapes
  std::vector<Timing> timings;
};

/// What candidates of a task are compared with on one device.
struct TaskBaselines {
  std::vector<BaselineTime> times;
  std::string best;  ///< the fastest peer's name: the speedup over it is what a search maximises
  std::vector<std::string> left_out = {};  ///< peers that fail here and are no contenders: "onednn: rms"
};

/// A client's connection to a gym, of this process or of a service (serve/client): submit
/// candidates of any number of tasks, take verdicts in the order in which they finish. A candidate
/// that dies, hangs, forks or floods costs only its own verdict. All members are thread-safe; what
/// is under way when a client is destroyed is cancelled.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  /// kBusy: this client has as many unfinished requests as it may; poll() first.
  virtual Result<Ticket> submit(EvaluationRequest request) = 0;
  /// The next finished request; waits at most so long. nullopt: none finished in time, or none is
  /// in flight.
  virtual std::optional<Evaluated> poll(double timeout_seconds) = 0;
  /// Submitted and not yet returned by poll().
  virtual int in_flight() const = 0;

  /// Begins to prepare a task, so that the first request finds it ready. Does not wait.
  virtual void prepare(std::shared_ptr<const TaskSpec> task) = 0;
  /// Waits for the task to be prepared (seconds). Errors: the task cannot be bound, no baseline
  /// passes, kCancelled.
  virtual Result<TaskBaselines> baselines(std::shared_ptr<const TaskSpec> task,
                                          const CancelToken& cancel) = 0;
};

/// The request's text, parsed. Errors: why it is no candidate.
Result<Candidate> candidate_of(const EvaluationRequest& request);
/// The verdict on a text that is no candidate, from why it is none: BUILD_FAILED, "bad_candidate".
Verdict unreadable_verdict(const EvaluationRequest& request, const Error& why);

/// Submits one request to a client that has no other in flight, and waits for what becomes of it.
Result<Verdict> evaluate_alone(Evaluator& evaluator, EvaluationRequest request);

}  // namespace lathe
