#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "backend/cuda/broker/offline_build.h"
#include "base/fd.h"
#include "base/processors.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "report/documents.h"

namespace lathe::cli {
namespace {

struct BuildOptions {
  std::string task, shape, arch, facts, out;
  std::vector<std::string> candidates;
};

/// What one candidate's build says on standard error; empty if it succeeded.
Result<std::string> build_one(OfflineBuilder& builder, const BoundTask& task, const std::string& path,
                              const std::string& out) {
  LATHE_TRY(std::string text, read_file(path));
  LATHE_TRY(const Candidate candidate, parse_candidate(std::move(text), path));
  LATHE_CHECK_OK(check_plan(candidate, *task.spec));
  LATHE_TRY(const BuildResult built, builder.build(candidate, task, stop_token()));
  if (!built.ok) return fmt::format("{}: {}\n{}", path, built.reason, built.facts.log);
  LATHE_TRY(const LaunchProgram program, compile_plan(candidate, task, builder.facts()));
  const std::string stem = std::filesystem::path(path).stem();
  const auto document = build_document(task, program, builder.arch(), stem + ".cubin");
  LATHE_CHECK_OK(write_file_atomically(out + "/" + stem + ".cubin", built.artifact.bytes));
  LATHE_CHECK_OK(write_file_atomically(out + "/" + stem + ".json", document.dump(2) + "\n"));
  return std::string();
}

/// Every candidate on a worker of its own, as far as there are processors.
std::vector<Result<std::string>> build_all(OfflineBuilder& builder, const BoundTask& task,
                                           const BuildOptions& options) {
  const std::size_t count = options.candidates.size();
  std::vector<Result<std::string>> results(count, std::string());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++)
      results[i] = build_one(builder, task, options.candidates[i], options.out);
  };
  std::vector<std::jthread> workers;
  for (std::size_t w = 1; w < std::min(count, usable_processors().size()); ++w) workers.emplace_back(work);
  work();
  workers.clear();
  return results;
}

Result<int> build(const BuildOptions& options) {
  LATHE_TRY(TaskSpec task, load_task(options.task));
  LATHE_CHECK_OK(choose_shape(task, options.shape));
  if (task.shapes.empty()) return invalid("the task has no shape", "name one with --shape");
  LATHE_TRY(const BoundTask bound, lathe::bind(task, task.shapes[0].dims));
  LATHE_TRY(const Dims facts, parse_numbers(options.facts));
  LATHE_TRY(const auto builder, OfflineBuilder::create({}, options.arch, facts));
  LATHE_CHECK_OK(make_directories(options.out));
  bool all_built = true;
  for (const Result<std::string>& result : build_all(*builder, bound, options)) {
    if (!result.ok()) return result.error();
    if (!result->empty()) print_block(stderr, "  ", *result);
    all_built = all_built && result->empty();
  }
  return static_cast<int>(all_built ? kSuccess : kNothingPassed);
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
