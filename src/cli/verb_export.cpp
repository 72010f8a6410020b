#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "backend/installation.h"
#include "baseline/baseline.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/run_plan.h"
#include "cli/verbs.h"
#include "library/export.h"
#include "report/documents.h"

namespace lathe::cli {
namespace {

struct ExportOptions {
  CommonOptions common;
  std::string run;
  std::string out;
  std::string name;
};

/// What serves the shapes that the best kernel does not: the best of the others that serves all and
/// that a package can carry, else the naive build.
Result<Candidate> choose_fallback(const std::vector<const Experience*>& ranked, const TaskSpec& task) {
  for (const Experience* const one : ranked) {
    LATHE_TRY(Candidate candidate, parse_candidate(one->candidate_text, one->candidate.short_hex()));
    if (serves_whole_domain(candidate) && check_exportable(candidate, task).ok()) return candidate;
  }
  LATHE_TRY(std::vector<Baseline> baselines, make_baselines(task));
  return std::move(baselines.front().candidate);
}

/// The first that a package can carry. Those before it are named, with the reason.
Status export_best(const std::vector<const Experience*>& ranked, ExportRequest request,
                   const ExportOptions& options) {
  if (ranked.empty())
    return Error{ErrorCode::kNotFound, "no candidate of run " + options.run + " passed",
                 "run lathe optimize with a larger budget"};
  for (const Experience* const one : ranked) {
    const std::string label = one->candidate.short_hex();
    LATHE_TRY(const Candidate candidate, parse_candidate(one->candidate_text, label));
    request.candidate = &candidate;
    request.verdict = &one->verdict;
    std::optional<Candidate> fallback;
    if (!serves_whole_domain(candidate)) {
      LATHE_TRY(fallback, choose_fallback(ranked, *request.task));
    }
    request.fallback = fallback ? &*fallback : nullptr;
    const Status exported = export_kernel(request, options.out);
    if (exported.ok() || exported.error().code != ErrorCode::kUnavailable) return exported;
    print_error(exported.error(), label + " is left out");
  }
  return Error{ErrorCode::kUnavailable, "none of the run's kernels can be exported",
               "search for one whose plan has only [[launch]] steps"};
}

Result<int> export_run(const ExportOptions& options) {
  LATHE_TRY(auto store, open_existing_store(options.common));
  LATHE_TRY(const RunRecord record, find_run(*store, options.run));
  LATHE_TRY(const auto experiences, store->experiences(record.id));
  LATHE_TRY(const TaskSpec task, parse_task(record.task_text, record.task_name + ".toml"));
  CommonOptions common = options.common;
  common.device = "cpu";  // packages are for processors, also where there is a GPU
  LATHE_TRY(auto backend, open_backend(common, store.get()));
  const auto document = nlohmann::json::parse(record.summary, nullptr, false);
  if (document.is_discarded())
    return invalid("run " + record.id + " has not ended",
                   "end it with: lathe optimize --resume " + record.id);
  LATHE_TRY(const ReportExtras extras, extras_from_document(document));
  ExportRequest request;
  request.task = &task;
  request.name = options.name;
  request.device = backend->device().name;
  request.facts = backend->device().facts;
  LATHE_TRY(request.device_headers, device_header_folder());
  LATHE_CHECK_OK(export_best(ranked_experiences(experiences, extras.best_baseline), request, options));
  print("{}\n", options.out);
  return static_cast<int>(kSuccess);
}

}  // namespace

void add_export(CLI::App& app, Run& run) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* verb =
      app.add_subcommand("export", "Write a run's best kernel as a package that other projects link");
  verb->add_option("RUN", options->run, "A run's id, the start of it, or 'last'")->required();
  verb->add_option("--out", options->out, "The package's folder")->required();
  verb->add_option("--name", options->name, "The package's name (default: the task's)");
  add_store(*verb, options->common);
  verb->callback([options, &run] {
    run = [options] {
      const auto code = export_run(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli
