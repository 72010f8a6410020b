#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/naive_grading.h"
#include "base/events.h"

namespace lathe {

/// A candidate whose verdict is known: an exploit, or an honest kernel that a strict gym might refuse.
struct ConformanceCase {
  std::string file;
  std::string task;
  std::vector<Outcome> expect;
  std::vector<std::string> reasons;
  Depth depth = Depth::kVerify;
  double at_most = 0;              ///< where positive: the speedup over the naive build that it may show
  std::string over = {};           ///< or over this honest case of the same task
  int threads = 1;                 ///< skipped on a backend with fewer
  std::string naive = "accepted";  ///< or "faster", "harmed", "any"
};

/// Reads `folder`/expected.toml. Errors carry file, line and column.
Result<std::vector<ConformanceCase>> read_conformance_table(const std::string& folder);

struct ConformanceResult {
  ConformanceCase spec;
  bool skipped = false;
  bool as_expected = false;  ///< by the gym; false if skipped
  bool naive_as_expected = false;
  Outcome outcome = Outcome::kInfra;
  std::string reason;
  std::string detail;
  double seconds = 0;               ///< build, verify and time
  std::optional<Interval> speedup;  ///< over the naive build, where timed
  double over_twin = 0;             ///< its speedup over the case that the table names, where there is one
  double unseen_over_usual = 0;     ///< a call's time on unseen inputs; 0 where it was not measured
  double worst_ratio = 0;           ///< of error and tolerance, over what was verified
  double recovery_seconds = 0;      ///< after a crash or a hang: until the next kernel's first block had run
  NaiveAnswer naive;
};

struct ConformanceReport {
  std::vector<ConformanceResult> results;
  int passed() const;  ///< cases whose verdict is the expected one
  int failed() const;
  int skipped() const;
  int fooled() const;  ///< cases that the naive grader judges as the table says
  double worst_recovery_seconds() const;
};

struct ConformanceOptions {
  Seed secret = Seed::from_system();  ///< of the gym's evaluators
  bool naive = true;                  ///< also ask the naive grader, once a case
  NaiveGrader* grader = nullptr;      ///< of the backend's device; null: the processor's
  double block_timeout_seconds = 3;
  std::vector<std::string> only = {};  ///< files without suffix; empty: all
};

/// Evaluates every candidate that `folder`/expected.toml lists, one event "conformance.case" each. Where
/// `folder`/peers has a candidate of a task's name, the naive grader compares with that instead of the naive
/// build. Errors: the folder or a file in it cannot be read, or a task has no honest naive build.
Result<ConformanceReport> run_conformance(const std::string& folder, Backend& backend, EventSink& events,
                                          const ConformanceOptions& options = {});

}  // namespace lathe
