#include "baseline/baseline.h"

#include <algorithm>

#include "baseline/compose.h"
#include "baseline/naive/native.h"

namespace lathe {
namespace {

/// The task's own module, as a candidate like any other.
Result<Candidate> process_candidate(const TaskSpec& task) {
  if (task.reference_text.empty())
    return Error{ErrorCode::kUnavailable,
                 "the module of '" + task.name + "' is not here",
                 "load the task from its file, beside which the module is",
                 {task.path, 0, 0}};
  return parse_candidate("\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"" + task.reference_entry +
                             "\"\n\"\"\"\n" + task.reference_text,
                         "naive");
}

/// Those with groups that a library of the dialect can compute, as far as the task wants them.
std::vector<std::pair<std::string, std::vector<VendorGroup>>> groups_by_library(const TaskSpec& task,
                                                                                Dialect dialect) {
  std::vector<std::pair<std::string, std::vector<VendorGroup>>> found;
  if (task.reference == ReferenceKind::kProcess) return found;
  for (const std::string_view library : vendor_libraries(dialect)) {
    if (!task.baselines.empty() && std::ranges::find(task.baselines, library) == task.baselines.end())
      continue;
    if (auto groups = vendor_groups(task, library); !groups.empty())
      found.emplace_back(library, std::move(groups));
  }
  return found;
}

}  // namespace

Result<Candidate> naive_candidate(const TaskSpec& task, Dialect dialect) {
  if (task.reference == ReferenceKind::kProcess) return process_candidate(task);
  if (task.reference != ReferenceKind::kNative) return compose_candidate(task, {}, "naive", dialect);
  if (dialect == Dialect::kCpu) return naive::native_candidate(task);
  return Error{ErrorCode::kUnavailable, "the task's native reference has no CUDA version"};
}

std::vector<std::string> baseline_names(const TaskSpec& task, Dialect dialect) {
  std::vector<std::string> names = {"naive"};
  for (const auto& [library, groups] : groups_by_library(task, dialect)) names.push_back(library);
  return names;
}

Result<std::vector<Baseline>> make_baselines(const TaskSpec& task, Dialect dialect) {
  std::vector<Baseline> baselines;
  LATHE_TRY(Candidate naive, naive_candidate(task, dialect));
  baselines.push_back({"naive", std::move(naive)});
  for (const auto& [library, groups] : groups_by_library(task, dialect)) {
    LATHE_TRY(Candidate candidate, compose_candidate(task, groups, library, dialect));
    baselines.push_back({library, std::move(candidate)});
  }
  return baselines;
}

}  // namespace lathe
