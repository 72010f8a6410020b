#pragma once

#include <nlohmann/json_fwd.hpp>

#include "candidate/launch_program.h"
#include "report/report.h"

namespace lathe {

/// The documents that `--json` writes (docs/json.md). Non-finite numbers become null.
inline constexpr std::string_view kOptimizeSchema = "lathe.optimize/1";
inline constexpr std::string_view kEvalSchema = "lathe.eval/1";
inline constexpr std::string_view kBuildSchema = "lathe.build/1";

/// The result of a run. It includes all of ReportExtras, so that a report can be rendered from a
/// stored document.
nlohmann::json optimize_document(const RunRecord& run, const std::vector<Experience>& experiences,
                                 const ReportExtras& extras);
/// Reads back what optimize_document wrote; errors name the field.
Result<ReportExtras> extras_from_document(const nlohmann::json& document);

/// An evaluated candidate; `candidate` is the file name as the user gave it. The document is a list
/// whose items each name the schema.
struct NamedVerdict {
  std::string candidate;
  Verdict verdict;
};
nlohmann::json eval_document(const std::string& task_name, const std::vector<NamedVerdict>& verdicts,
                             const ReportExtras& extras);

/// The launch program of a built candidate at one shape, with all expressions evaluated.
nlohmann::json build_document(const BoundTask& task, const LaunchProgram& program, const std::string& arch,
                              const std::string& object);

}  // namespace lathe
