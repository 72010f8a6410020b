#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/output.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/run_plan.h"
#include "cli/verbs.h"
#include "record/json.h"
#include "report/documents.h"
#include "report/training_chart.h"
#include "report/training_page.h"

namespace lathe::cli {
namespace {

struct ReportOptions {
  CommonOptions common;
  std::string run;
  std::string html;
};

Status write_page(const std::string& path, const std::string& text, bool tells_path) {
  if (path == "-") return write_standard_output(text), Ok{};
  LATHE_CHECK_OK(write_output(path, text));
  if (tells_path) print("{}\n", path);
  return Ok{};
}

/// Of a folder that `lathe train` wrote.
Result<int> report_training(const ReportOptions& options) {
  LATHE_TRY(const std::string metrics, read_file(options.run + "/metrics.jsonl"));
  const std::string path = options.html.empty() ? options.run + "/report.html" : options.html;
  const bool curves_alone = path.ends_with(".svg");
  std::string samples;
  std::error_code code;
  const std::string file = options.run + "/samples.jsonl";
  if (!curves_alone && std::filesystem::exists(file, code)) {
    LATHE_TRY(samples, read_file(file));
  }
  const auto text =
      curves_alone ? training_chart(metrics, options.run) : training_page({options.run, metrics, samples});
  if (!text.ok())
    return invalid(options.run + "/metrics.jsonl: " + text.error().message,
                   "lathe train writes a line for each step that it has done");
  LATHE_CHECK_OK(write_page(path, *text, true));
  return static_cast<int>(kSuccess);
}

Result<int> report(const ReportOptions& options) {
  std::error_code code;
  if (std::filesystem::exists(options.run + "/metrics.jsonl", code)) return report_training(options);
  LATHE_TRY(auto store, open_existing_store(options.common));
  LATHE_TRY(const RunRecord record, find_run(*store, options.run));
  LATHE_TRY(const auto experiences, store->experiences(record.id));
  const auto document = nlohmann::json::parse(record.summary, nullptr, false);
  if (document.is_discarded())
    return invalid("run " + record.id + " has not ended, so its baselines are not stored",
                   "end it with: lathe optimize --resume " + record.id);
  LATHE_TRY(const ReportExtras extras, extras_from_document(document));
  LATHE_TRY(const std::string page, render_report(record, experiences, extras));
  const std::string path = options.html.empty() ? record.id + ".html" : options.html;
  LATHE_CHECK_OK(write_page(path, page, options.common.json_file != "-"));
  LATHE_CHECK_OK(write_json(options.common.json_file, document));
  return static_cast<int>(kSuccess);
}

}  // namespace

void add_report(CLI::App& app, Run& run) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* verb = app.add_subcommand("report", "Write the HTML page of a run or of a training run");
  verb->add_option("RUN", options->run,
                   "A run's id, the start of it, or 'last'; or the folder of a training run")
      ->required();
  verb->add_option(
      "--html", options->html,
      "The page's file; - is standard output (default: RUN.html; of a training run report.html in its "
      "folder, and a FILE.svg gets its curves alone)");
  add_json(*verb, options->common, "the run's document");
  add_store(*verb, options->common);
  verb->callback([options, &run] {
    check_outputs_differ(
        std::array<NamedOutput, 2>{{{"--html", options->html}, {"--json", options->common.json_file}}});
    run = [options] {
      const auto code = report(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli
