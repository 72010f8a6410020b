// How many evaluations an hour the gym makes, and where an evaluation's time goes: catalogue candidates of a
// mix of tasks at a depth; first one alone at a time, then all submitted together.

#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <map>

#include "base/clock.h"
#include "bench/device.h"
#include "gym/gym.h"
#include "policy/catalog/catalog.h"

namespace lathe {
namespace {

/// Every pattern of the catalogue, cheap and dear ones: the mix that results/ names "mix20".
const std::vector<std::string> kMix20 = {"argmax_rows",    "avg_pool2d",      "batch_norm_relu",
                                         "batched_matmul", "bias_gelu_scale", "conv2d",
                                         "cross_entropy",  "cumsum",          "embedding",
                                         "gelu",           "gemm_bias_gelu",  "gemm_square",
                                         "layer_norm",     "matmul_row_sum",  "mean_rows",
                                         "mse_loss",       "rms_norm",        "scale_mask_softmax",
                                         "softmax_rows",   "transpose"};

struct Options {
  std::vector<std::string> tasks;
  std::string folder = "tasks";
  int count = 20, alone = 4;
  std::string depth = "screen", device = "cpu";
};

/// What came of a series of evaluations.
struct Series {
  std::map<std::string, std::vector<double>> stages;  ///< seconds, with "all" but the queue
  std::map<std::string, int> outcomes;
  std::vector<double> unseen_over_usual;
  double seconds = 0;

  double p50(const std::string& stage) const {
    const auto found = stages.find(stage);
    return found == stages.end() ? 0.0 : median(found->second);
  }
  std::size_t count() const { return stages.contains("all") ? stages.at("all").size() : 0; }
  void take(const Verdict& verdict) {
    double total = 0;
    for (const auto& [stage, spent] : verdict.stage_seconds) {
      if (stage == "queue") continue;
      stages[stage].push_back(spent);
      total += spent;
    }
    stages["all"].push_back(total);
    if (const auto unseen = verdict.profile.find("unseen_over_usual"); unseen != verdict.profile.end())
      unseen_over_usual.push_back(unseen->second);
    ++outcomes[std::string(name(verdict.outcome)) + (verdict.passed() ? "" : " " + verdict.reason)];
  }
  void take(const Series& other) {
    for (const auto& [stage, spent] : other.stages)
      stages[stage].insert(stages[stage].end(), spent.begin(), spent.end());
    for (const auto& [outcome, n] : other.outcomes) outcomes[outcome] += n;
    unseen_over_usual.insert(unseen_over_usual.end(), other.unseen_over_usual.begin(),
                             other.unseen_over_usual.end());
    seconds += other.seconds;
  }
  std::string verdicts() const {
    std::string text;
    for (const auto& [outcome, n] : outcomes) text += fmt::format("{} {} ", n, outcome);
    return text;
  }
};

/// Submits all, or the next only when the one before is done.
Result<Series> evaluate(Evaluator& evaluator, std::span<const Proposal> proposals, Depth depth, bool alone) {
  Series series;
  const auto begin = steady_clock().now_ns();
  const auto drain = [&] {
    while (const auto done = evaluator.next()) series.take(done->verdict);
  };
  for (const Proposal& proposal : proposals) {
    LATHE_TRY(Candidate candidate, parse_candidate(proposal.text, "proposal"));
    evaluator.submit({std::move(candidate), depth, 0});
    if (alone) drain();
  }
  drain();
  series.seconds = seconds_since(begin);
  return series;
}

struct Totals {
  Series alone, together;
  double prepare_seconds = 0;
  std::map<std::string, double> prepare_parts = {};

  void take(const std::vector<Event>& events) {
    for (const Event& event : events)
      if (event.kind == "gym.prepared")
        for (const auto& [part, seconds] : event.fields) prepare_parts[part] += std::stod(seconds);
  }
};

void print_row(const std::string& task, const Series& alone, const Series& together, double prepare_seconds) {
  fmt::print("| {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {} | {:.0f} | {:.3f} | {:.3f} | {:.1f} | {}|\n",
             task, alone.p50("all"), alone.p50("build"), alone.p50("verify"), alone.p50("time"),
             together.count(), 3600.0 * static_cast<double>(together.count()) / together.seconds,
             together.p50("verify"), together.p50("time"), prepare_seconds, together.verdicts());
  std::fflush(stdout);
}

/// Of the whole bench, preparation too.
void print_usage(const DeviceUsage& usage, double seconds) {
  if (usage.blocks == 0) return;
  fmt::print("\n{} blocks in {:.1f} s; calls kept the device busy {:.1f} s ({:.0f}%); the broker's times:",
             usage.blocks, seconds, usage.busy_seconds, 100 * usage.busy_seconds / seconds);
  for (const auto& [name, stage] : usage.stages)
    fmt::print(" {} {} x {:.2f} ms,", name, stage.count,
               1e3 * stage.seconds / static_cast<double>(stage.count));
  fmt::print("\n");
}

/// How far honest kernels are from what counts as remembering inputs.
void print_unseen(const Totals& totals) {
  std::vector<double> all = totals.alone.unseen_over_usual;
  all.insert(all.end(), totals.together.unseen_over_usual.begin(), totals.together.unseen_over_usual.end());
  if (all.empty()) return;
  std::ranges::sort(all);
  fmt::print("a call on unseen inputs over one on others: p50 {:.3f}, p90 {:.3f}, most {:.3f}\n", median(all),
             all[all.size() * 9 / 10], all.back());
}

void print_preparation(const Totals& totals) {
  fmt::print("preparation, seconds in all:");
  for (const auto& [part, seconds] : totals.prepare_parts) fmt::print(" {} {:.1f},", part, seconds);
  fmt::print("\n");
}

Status run_task(const std::string& path, const Options& options, Backend& backend, Totals& totals) {
  LATHE_TRY(const Depth depth, parse_depth(options.depth));
  LATHE_TRY(const TaskSpec task, load_task(path));
  const auto preparing = steady_clock().now_ns();
  LATHE_TRY(const DevicePeaks peaks, backend.peaks());
  EvaluatorOptions gym;
  gym.anchors = catalog_anchors({task, backend.device(), peaks});
  RecordingSink sink;
  LATHE_TRY(auto evaluator, Evaluator::create(task, backend, gym, sink));
  const double prepare_seconds = seconds_since(preparing);
  totals.take(sink.events());
  const auto policy = make_catalog_policy();
  Rng rng(Seed::from_number(1));
  LATHE_TRY(const auto proposals,
            policy->propose({task, backend.device(), peaks}, options.alone + options.count, rng));
  const std::span<const Proposal> all(proposals);
  const auto first = std::min(proposals.size(), static_cast<std::size_t>(options.alone));
  LATHE_TRY(const Series alone, evaluate(*evaluator, all.first(first), depth, true));
  LATHE_TRY(const Series together, evaluate(*evaluator, all.subspan(first), depth, false));
  print_row(task.name, alone, together, prepare_seconds);
  totals.alone.take(alone);
  totals.together.take(together);
  totals.prepare_seconds += prepare_seconds;
  return Ok{};
}

Status run(const Options& options) {
  LATHE_TRY(auto backend, open_device(options.device));
  fmt::print("{}, {} cores, depth {}\n\n", backend->device().name, backend->device().cores, options.depth);
  fmt::print(
      "| task | alone p50 s | build | verify | time | together | evaluations/h | verify p50 s | time p50 s | "
      "preparation s | verdicts |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  std::vector<std::string> tasks = options.tasks;
  if (tasks.empty())
    for (const std::string& name : kMix20) tasks.push_back(options.folder + "/" + name + ".toml");
  Totals totals;
  const auto begin = steady_clock().now_ns();
  for (const std::string& task : tasks) LATHE_CHECK_OK(run_task(task, options, *backend, totals));
  print_row("all", totals.alone, totals.together, totals.prepare_seconds);
  print_usage(backend->usage(), seconds_since(begin));
  print_unseen(totals);
  print_preparation(totals);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("\npeak memory of the broker: {} MiB\n", usage.ru_maxrss / 1024);
  return Ok{};
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  CLI::App app{"Measures evaluations an hour"};
  lathe::Options options;
  app.add_option("TASK", options.tasks, "Task files; without any, the mix of 20");
  app.add_option("--tasks", options.folder, "The folder of the mix's tasks");
  app.add_option("--count", options.count, "Candidates a task that are submitted together");
  app.add_option("--alone", options.alone, "Candidates a task before them, one at a time");
  app.add_option("--depth", options.depth, "verify, screen or final");
  lathe::add_device(app, options.device);
  CLI11_PARSE(app, argc, argv);
  const auto status = lathe::run(options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 1;
}
