#pragma once

#include <string>

#include "candidate/candidate.h"
#include "record/verdict.h"

namespace lathe {

/// A verified kernel to export. Pointers must outlive the call.
struct ExportRequest {
  const TaskSpec* task = nullptr;
  const Candidate* candidate = nullptr;
  const Verdict* verdict = nullptr;  ///< of this candidate; must have passed
  /// Serves the part of the task's domain that `candidate` does not; verified, and without
  /// `requires` and constants. May be null.
  const Candidate* fallback = nullptr;
  std::string name;            ///< a C identifier; empty: the task's name
  std::string device;          ///< where it was measured, for display
  Dims facts;                  ///< device facts that plan expressions may use
  std::string device_headers;  ///< the folder that holds lathe/cpu.h
};

/// Whether the candidate leaves no part of the task's domain to a fallback.
bool serves_whole_domain(const Candidate& candidate);

/// kUnavailable, with what to do, for a plan that a package cannot carry: library nodes, a GPU's
/// launches.
Status check_exportable(const Candidate& candidate, const TaskSpec& task);

/// Writes a source package that builds with CMake alone: `find_package(lathe_<name> PATHS out_dir)`
/// gives the target lathe::<name>, a C function that evaluates the plan at call time and never
/// parses. The kernel is compiled for the machine it is built on. Errors: kInvalid for a verdict
/// that did not pass or a bad name; kUnavailable as from check_exportable(); kIo. A non-empty
/// folder is refused unless it holds an earlier export.
Status export_kernel(const ExportRequest& request, const std::string& out_dir);

}  // namespace lathe
