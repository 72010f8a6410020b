#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/cuda/broker/offline_build.h"
#include "base/fd.h"
#include "base/output.h"
#include "base/parallel.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "record/json.h"
#include "report/documents.h"

namespace lathe::cli {
namespace {

struct BuildOptions {
  std::string task, shape, arch, facts, out;
  std::vector<std::string> candidates;
};

/// The name of a candidate's outputs.
std::string stem_of(const std::string& path) { return std::filesystem::path(path).stem(); }

Status build_one(OfflineBuilder& builder, const BoundTask& task, const std::string& path,
                 const std::string& out) {
  LATHE_TRY(std::string text, read_file(path, kMaxCandidateBytes));
  LATHE_TRY(const Candidate candidate, parse_candidate(std::move(text), path));
  LATHE_CHECK_OK(check_plan(candidate, *task.spec));
  LATHE_TRY(const LaunchProgram program, compile_plan(candidate, task, builder.facts()));
  LATHE_TRY(const BuildResult built, builder.build(candidate, task, stop_token()));
  if (!built.ok) return refused(built.reason, built.reason + "\n" + built.facts.log, {}, {path});
  const std::string stem = stem_of(path);
  const auto document = build_document(task, program, builder.arch(), stem + ".cubin");
  LATHE_CHECK_OK(write_output(out + "/" + stem + ".cubin", built.artifact.bytes));
  return write_output(out + "/" + stem + ".json", json_text(document, 2) + "\n");
}

/// Every candidate on a worker of its own, as far as there are processors.
std::vector<Status> build_all(OfflineBuilder& builder, const BoundTask& task, const BuildOptions& options) {
  std::vector<Status> results(options.candidates.size(), Ok{});
  (void)for_each_index(static_cast<int>(results.size()), [&](int i) -> Status {
    const auto at = static_cast<std::size_t>(i);
    results[at] = build_one(builder, task, options.candidates[at], options.out);
    return Ok{};
  });
  return results;
}

Status check_names(const std::vector<std::string>& paths) {
  std::map<std::string, std::string> written;
  for (const std::string& path : paths)
    if (const auto [other, fresh] = written.emplace(stem_of(path), path); !fresh)
      return invalid(
          fmt::format("'{}' and '{}' would both be written to {}.cubin", other->second, path, other->first),
          "rename one, or build them into two folders");
  return Ok{};
}

/// Names every candidate that is left out, and why. The exit code is that of the gravest reason.
Result<int> build(const BuildOptions& options) {
  LATHE_TRY(TaskSpec task, load_task_of_candidates(options.task));
  LATHE_CHECK_OK(choose_shape(task, options.shape));
  if (task.shapes.empty()) return invalid("the task has no shape", "name one with --shape");
  LATHE_CHECK_OK(check_names(options.candidates));
  LATHE_TRY(const BoundTask bound, lathe::bind(task, task.shapes[0].dims));
  LATHE_TRY(const Dims facts, parse_numbers(options.facts));
  LATHE_TRY(const auto builder, OfflineBuilder::create({}, options.arch, facts));
  LATHE_CHECK_OK(make_directories(options.out));
  const std::vector<Status> results = build_all(*builder, bound, options);
  if (stop_token().cancelled()) return static_cast<int>(kInterrupted);
  int code = kSuccess;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) continue;
    const Error& error = results[i].error();
    print_error(error, options.candidates[i] + " is left out");
    const bool unfit = !error.reason.empty() || error.code == ErrorCode::kUnavailable;
    code = std::max(code, unfit ? int{kNothingPassed} : exit_code(error));
  }
  return code;
}

}  // namespace

void add_build(CLI::App& app, Run& run) {
  auto options = std::make_shared<BuildOptions>();
  CLI::App* verb = app.add_subcommand(
      "build", "Compile candidates for an NVIDIA GPU; write objects and how to launch them");
  verb->add_option("TASK", options->task, "The task's TOML file")->required();
  verb->add_option("CANDIDATE", options->candidates, "Candidate files")->required();
  verb->add_option("--out", options->out, "Where NAME.cubin and NAME.json go")->required();
  verb->add_option("--shape", options->shape, "\"rows=1024,cols=512\" (default: the task's first shape)");
  verb->add_option("--arch", options->arch, "sm_80, sm_90a or sm_100a (default: this machine's GPU)");
  verb->add_option("--facts", options->facts, "Device facts that differ: \"sm_count=114\"");
  verb->callback([options, &run] {
    run = [options] {
      const auto code = build(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli
