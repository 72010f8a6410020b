// How many evaluations a minute the gym makes, and where an evaluation's time goes: catalogue candidates of
// several tasks, submitted together, at a depth.

#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <map>

#include "base/clock.h"
#include "bench/device.h"
#include "gym/evaluator.h"
#include "policy/catalog/catalog.h"

namespace lathe {
namespace {

struct Options {
  std::vector<std::string> tasks = {"tasks/cross_entropy.toml",  "tasks/conv2d.toml",
                                    "tasks/matmul_row_sum.toml", "tasks/softmax_rows.toml",
                                    "tasks/layer_norm.toml",     "tasks/gemm_bias_gelu.toml"};
  int count = 20;
  std::string depth = "screen", device = "cpu";
};

double seconds_since(std::int64_t begin_ns) {
  return static_cast<double>(steady_clock().now_ns() - begin_ns) * 1e-9;
}

Status run_task(const std::string& path, Depth depth, int count, Backend& backend) {
  LATHE_TRY(const TaskSpec task, load_task(path));
  const auto preparing = steady_clock().now_ns();
  LATHE_TRY(const DevicePeaks peaks, backend.peaks());
  EvaluatorOptions gym;
  gym.anchors = catalog_anchors({task, backend.device(), peaks});
  LATHE_TRY(auto evaluator, Evaluator::create(task, backend, gym, null_sink()));
  const double prepare_seconds = seconds_since(preparing);
  const auto policy = make_catalog_policy();
  Rng rng(Seed::from_number(1));
  LATHE_TRY(const auto proposals, policy->propose({task, backend.device(), peaks}, count, rng));
  std::map<std::string, std::vector<double>> stages;
  std::map<std::string, int> outcomes;
  const auto begin = steady_clock().now_ns();
  for (const Proposal& proposal : proposals) {
    LATHE_TRY(Candidate candidate, parse_candidate(proposal.text, "proposal"));
    evaluator->submit({std::move(candidate), depth, 0});
  }
  while (const auto done = evaluator->next()) {
    double total = 0;
    for (const auto& [stage, seconds] : done->verdict.stage_seconds) {
      if (stage == "queue") continue;
      stages[stage].push_back(seconds);
      total += seconds;
    }
    stages["all"].push_back(total);
    ++outcomes[std::string(name(done->verdict.outcome))];
  }
  const double seconds = seconds_since(begin);
  const auto p50 = [&](const char* stage) { return stages[stage].empty() ? 0.0 : median(stages[stage]); };
  std::string counts;
  for (const auto& [outcome, n] : outcomes) counts += fmt::format("{} {} ", n, outcome);
  fmt::print("| {} | {} | {} | {:.0f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.1f} | {}|\n", task.name,
             name(depth), proposals.size(), 60.0 * static_cast<double>(proposals.size()) / seconds,
             p50("all"), p50("build"), p50("verify"), p50("time"), prepare_seconds, counts);
  std::fflush(stdout);
  return Ok{};
}

Status run(const Options& options) {
  LATHE_TRY(const Depth depth, parse_depth(options.depth));
  LATHE_TRY(auto backend, open_device(options.device));
  fmt::print("{}, {} cores\n\n", backend->device().name, backend->device().cores);
  fmt::print(
      "| task | depth | n | evaluations/min | p50 s | build s | verify s | time s | preparation s | verdicts "
      "|\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const std::string& task : options.tasks)
    LATHE_CHECK_OK(run_task(task, depth, options.count, *backend));
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("\npeak memory of the broker: {} MiB\n", usage.ru_maxrss / 1024);
  return Ok{};
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  CLI::App app{"Measures evaluations a minute"};
  lathe::Options options;
  app.add_option("TASK", options.tasks, "Task files");
  app.add_option("--count", options.count, "Candidates a task");
  app.add_option("--depth", options.depth, "verify, screen or final");
  lathe::add_device(app, options.device);
  CLI11_PARSE(app, argc, argv);
  const auto status = lathe::run(options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 1;
}
