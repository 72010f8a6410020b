// How many evaluations an hour the gym makes, and where an evaluation's time goes: catalogue
// candidates of a mix of tasks at a depth; first one alone at a time, then all submitted together.

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
  int lanes = 0;
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

/// A task with the catalogue's candidates for it.
struct Work {
  std::shared_ptr<const TaskSpec> task;
  std::vector<Proposal> alone, together;
};

Result<Work> plan_work(const std::string& path, const Options& options, Backend& backend) {
  Work work;
  LATHE_TRY(TaskSpec task, load_task(path));
  work.task = std::make_shared<const TaskSpec>(std::move(task));
  LATHE_TRY(const DevicePeaks peaks, backend.peaks());
  LATHE_TRY(auto proposals,
            propose_now(*make_catalog_policy(), {.context = {work.task, backend.device(), peaks},
                                                 .count = options.alone + options.count,
                                                 .seed = Seed::from_number(1)}));
  const auto first = std::min(proposals.size(), static_cast<std::size_t>(options.alone));
  work.alone.assign(proposals.begin(), proposals.begin() + static_cast<std::ptrdiff_t>(first));
  work.together.assign(proposals.begin() + static_cast<std::ptrdiff_t>(first), proposals.end());
  return work;
}

std::unique_ptr<Gym> start_gym(Backend& backend, int lanes, EventSink& sink) {
  GymOptions options;
  options.lanes = lanes;
  options.anchors = [&backend](const TaskSpec& task) {
    const auto peaks = backend.peaks();
    if (!peaks.ok()) return std::vector<Candidate>{};
    return catalog_anchors({std::make_shared<const TaskSpec>(task), backend.device(), *peaks});
  };
  return Gym::start(backend, options, sink);
}

/// Seconds of the stages of each preparation.
using Preparation = std::map<std::string, double>;

std::vector<Preparation> preparations(const std::vector<Event>& events) {
  std::vector<Preparation> all;
  for (const Event& event : events) {
    if (event.kind != "gym.prepared") continue;
    Preparation& one = all.emplace_back();
    for (const auto& [part, seconds] : event.fields)
      if (part != "task") one[part] = std::stod(seconds);
  }
  return all;
}

struct Totals {
  Series alone, together;
  std::vector<double> prepare_seconds;
  std::map<std::string, double> prepare_parts = {};

  void take(const std::vector<Event>& events) {
    for (const Preparation& one : preparations(events))
      for (const auto& [part, seconds] : one) prepare_parts[part] += seconds;
  }
};

/// One task at a time: its preparation, less what other programs held the device meanwhile, then
/// its candidates one after the other.
Status run_alone(const std::vector<Work>& all, Depth depth, Backend& backend, int lanes, Totals& totals) {
  fmt::print(
      "| task | preparation s | data and builds | naive | ties | alone p50 s | build | verify | time | "
      "verdicts "
      "|\n|---|---|---|---|---|---|---|---|---|---|\n");
  const auto print_row = [](const std::string& task, double seconds, Preparation parts,
                            const Series& series) {
    fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {}|\n", task,
               seconds, parts["data and builds"], parts["naive"], parts["ties"], series.p50("all"),
               series.p50("build"), series.p50("verify"), series.p50("time"), series.verdicts());
    std::fflush(stdout);
  };
  RecordingSink sink;
  for (const Work& work : all) {
    const auto gym = start_gym(backend, lanes, sink);
    const auto client = gym->connect();
    const auto preparing = steady_clock().now_ns();
    const double waited = backend.lane().waited_seconds();
    LATHE_TRY(const TaskBaselines baselines, client->baselines(work.task, {}));
    totals.prepare_seconds.push_back(seconds_since(preparing) - (backend.lane().waited_seconds() - waited));
    Series series;
    for (const Proposal& proposal : work.alone) {
      LATHE_TRY(const Verdict verdict,
                evaluate_alone(*client, {.task = work.task, .text = proposal.text, .depth = depth}));
      series.take(verdict);
    }
    print_row(work.task->name, totals.prepare_seconds.back(), preparations(sink.events()).back(), series);
    totals.alone.take(series);
  }
  totals.take(sink.events());
  std::map<std::string, std::vector<double>> parts;
  for (const Preparation& one : preparations(sink.events()))
    for (const auto& [part, seconds] : one) parts[part].push_back(seconds);
  Preparation typical;
  for (const auto& [part, seconds] : parts) typical[part] = median(seconds);
  print_row("p50", median(totals.prepare_seconds), typical, totals.alone);
  return Ok{};
}

/// Everything at once, preparation included.
Status run_together(const std::vector<Work>& all, Depth depth, Backend& backend, int lanes, Totals& totals) {
  RecordingSink sink;
  const auto gym = start_gym(backend, lanes, sink);
  const auto client = gym->connect();
  const auto begin = steady_clock().now_ns();
  for (const Work& work : all)
    for (const Proposal& proposal : work.together)
      LATHE_CHECK_OK(client->submit({.task = work.task, .text = proposal.text, .depth = depth}));
  while (client->in_flight() > 0) {
    auto evaluated = client->poll(1);
    if (!evaluated) continue;
    LATHE_TRY(const Verdict verdict, std::move(evaluated->verdict));
    totals.together.take(verdict);
  }
  totals.together.seconds = seconds_since(begin);
  const Series& series = totals.together;
  fmt::print(
      "\n{} evaluations of {} tasks together, preparation included: {:.1f} s, {:.0f} an hour, {:.3f} s "
      "each\n",
      series.count(), all.size(), series.seconds,
      3600.0 * static_cast<double>(series.count()) / series.seconds,
      series.seconds / static_cast<double>(std::max<std::size_t>(1, series.count())));
  fmt::print("p50 of an evaluation's stages meanwhile: build {:.3f} s, verify {:.3f} s, time {:.3f} s; {}\n",
             series.p50("build"), series.p50("verify"), series.p50("time"), series.verdicts());
  return Ok{};
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
  fmt::print("preparation one at a time, seconds in all:");
  for (const auto& [part, seconds] : totals.prepare_parts) fmt::print(" {} {:.1f},", part, seconds);
  fmt::print("\n");
}

Status run(const Options& options) {
  LATHE_TRY(auto backend, open_device(options.device));
  fmt::print("{}, {} cores, depth {}\n\n", backend->device().name, backend->device().cores, options.depth);
  std::vector<std::string> tasks = options.tasks;
  if (tasks.empty())
    for (const std::string& name : kMix20) tasks.push_back(options.folder + "/" + name + ".toml");
  Totals totals;
  const auto begin = steady_clock().now_ns();
  LATHE_TRY(const Depth depth, parse_depth(options.depth));
  std::vector<Work> all;
  for (const std::string& task : tasks) {
    LATHE_TRY(Work work, plan_work(task, options, *backend));
    all.push_back(std::move(work));
  }
  if (options.alone > 0) LATHE_CHECK_OK(run_alone(all, depth, *backend, options.lanes, totals));
  if (options.count > 0) LATHE_CHECK_OK(run_together(all, depth, *backend, options.lanes, totals));
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
  app.add_option("--lanes", options.lanes,
                 "Evaluations under way at once; 0: as many as the device is worth");
  app.add_option("--depth", options.depth, "verify, screen or final");
  lathe::add_device(app, options.device);
  CLI11_PARSE(app, argc, argv);
  const auto status = lathe::run(options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 1;
}
