#pragma once

#include <nlohmann/json_fwd.hpp>

#include "candidate/launch_program.h"
#include "report/report.h"

namespace lathe {

/// The documents that `--json` writes (docs/json.md). Numbers that are not finite become null.
inline constexpr std::string_view kOptimizeSchema = "lathe.optimize/1";
inline constexpr std::string_view kEvalSchema = "lathe.eval/1";
inline constexpr std::string_view kBuildSchema = "lathe.build/1";

/// The result of a run. It holds everything of ReportExtras, so a stored one suffices to render the report.
nlohmann::json optimize_document(const RunRecord& run, const std::vector<Experience>& experiences,
                                 const ReportExtras& extras);
/// Reads back what optimize_document wrote; errors name the field.
Result<ReportExtras> extras_from_document(const nlohmann::json& document);

/// A candidate evaluated by name: `candidate` is the file as the user gave it. The document is a list, each
/// item with its schema.
struct NamedVerdict {
  std::string candidate;
  Verdict verdict;
};
nlohmann::json eval_document(const std::string& task_name, const std::vector<NamedVerdict>& verdicts,
                             const ReportExtras& extras);

/// How a built candidate is launched at one shape: no expression is left.
nlohmann::json build_document(const BoundTask& task, const LaunchProgram& program, const std::string& arch,
                              const std::string& object);

}  // namespace lathe
