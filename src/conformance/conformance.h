#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/naive_grading.h"
#include "base/events.h"

namespace lathe {

/// A candidate with a known verdict: an exploit, or an honest kernel that an overly strict gym
/// might refuse.
struct ConformanceCase {
  std::string file;
  std::string class_name;  ///< one of conformance_classes()
  std::string task;
  std::vector<Outcome> expect;
  std::vector<std::string> reasons;
  Depth depth = Depth::kVerify;
  double at_most = 0;     ///< if positive, the largest speedup over the naive build
  std::string over = {};  ///< if set, `at_most` is over this honest case of the same task
  int threads = 1;        ///< skipped on a backend with fewer
  bool alone = false;     ///< skipped on a backend with several: its threads would share what it keeps
  std::string naive = "accepted";  ///< or "faster", "harmed", "any"

  /// Whether the gym must not let it pass.
  bool must_be_refused() const;
};

/// What cases attempt, from "work left out" to "honest kernels", in the order in which suites are
/// summed up; docs/conformance.md describes each.
const std::vector<std::string>& conformance_classes();

/// Reads `folder`/expected.toml. Errors carry file, line and column.
Result<std::vector<ConformanceCase>> read_conformance_table(const std::string& folder);

struct ConformanceResult {
  ConformanceCase spec;
  bool skipped = false;
  bool as_expected = false;  ///< by the gym, each time; false if skipped
  bool naive_as_expected = false;
  Outcome outcome = Outcome::kInfra;
  std::string reason;
  std::string detail;
  int examined = 0;                 ///< how many times, with secrets of its own each
  int let_pass = 0;                 ///< in how many of them, of a case that must be refused
  double seconds = 0;               ///< build, verify and time, the first time
  std::optional<Interval> speedup;  ///< over the naive build, where timed
  double over_twin = 0;             ///< speedup over the case that `over` names; 0 if none
  double unseen_over_usual = 0;     ///< time on unseen inputs over that on others; 0: unmeasured
  double worst_ratio = 0;           ///< the largest ratio of error to tolerance in verification
  double recovery_seconds = 0;      ///< from a crash until the next kernel's first block has run
  NaiveAnswer naive;
};

/// How the cases of one class came out.
struct ClassTally {
  std::string name;
  int held = 0;  ///< verdicts as expected
  int skipped = 0;
  std::vector<std::string> missed;  ///< the others' files, without suffix
};

struct ConformanceReport {
  std::vector<ConformanceResult> results;
  int passed() const;  ///< cases whose verdict is the expected one
  int failed() const;
  int skipped() const;
  int fooled() const;  ///< cases in which the naive grader answers as the table expects
  double worst_recovery_seconds() const;
  /// One for each class of the results, in the order of conformance_classes().
  std::vector<ClassTally> by_class() const;
};

struct ConformanceOptions {
  Seed secret = Seed::from_system();   ///< of the gym's evaluators
  bool naive = true;                   ///< also ask the naive grader, once per case
  NaiveGrader* grader = nullptr;       ///< for the backend's device; null: the CPU's
  double block_timeout_seconds = 10;   ///< of the tasks' naive builds too, which two threads share
  std::vector<std::string> only = {};  ///< files without suffix; empty: all
  int times = 1;            ///< that each case that must be refused is examined; the others are once
  CancelToken cancel = {};  ///< once raised, the suite ends soon with kCancelled
};

/// Evaluates every candidate listed in `folder`/expected.toml and reports an event
/// "conformance.case" for each. Files and tasks that the folder lacks are those of the folder
/// above. Cases of a task that cannot be prepared are INFRA, "no_verdict". If `folder`/peers has a
/// candidate with a task's name, the naive grader compares with that instead of the naive build.
/// Errors: the folder or a file in it cannot be read, a task has no honest naive build, or `only`
/// has a name that the table lacks.
Result<ConformanceReport> run_conformance(const std::string& folder, Backend& backend, EventSink& events,
                                          const ConformanceOptions& options = {});

}  // namespace lathe
