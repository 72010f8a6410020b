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

}  // namespace

Result<Candidate> naive_candidate(const TaskSpec& task, Dialect dialect) {
  if (task.reference == ReferenceKind::kProcess) return process_candidate(task);
  if (task.reference != ReferenceKind::kNative) return compose_candidate(task, {}, "naive", dialect);
  if (dialect == Dialect::kCpu) return naive::native_candidate(task);
  return Error{ErrorCode::kUnavailable, "the task's native reference has no CUDA version"};
}

Result<std::vector<Baseline>> make_baselines(const TaskSpec& task, Dialect dialect) {
  std::vector<Baseline> baselines;
  LATHE_TRY(Candidate naive, naive_candidate(task, dialect));
  baselines.push_back({"naive", std::move(naive)});
  if (task.reference == ReferenceKind::kProcess) return baselines;
  for (const std::string_view library : vendor_libraries(dialect)) {
    const auto wanted = [&](const std::string& name) { return name == library; };
    if (!task.baselines.empty() && std::none_of(task.baselines.begin(), task.baselines.end(), wanted))
      continue;
    const std::vector<VendorGroup> groups = vendor_groups(task, library);
    if (groups.empty()) continue;
    LATHE_TRY(Candidate candidate, compose_candidate(task, groups, std::string(library), dialect));
    baselines.push_back({std::string(library), std::move(candidate)});
  }
  return baselines;
}

}  // namespace lathe
