// How many Python candidates an hour the gym judges, where their seconds go, and how many processes
// are started for them. Each file is submitted many times, as a candidate of its own: the number
// behind each "variant" in its text is another one, so that everything is compiled anew.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <regex>

#include "backend/cuda/broker/window_client.h"
#include "backend/host/host_backend.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/statistics.h"
#include "gym/gym.h"

namespace lathe {
namespace {

struct Options {
  std::string task;
  std::vector<std::string> files;
  std::string device = "host:cpu", depth = "screen";
  int count = 10, lanes = 0;
  bool few_processes = false;
};

using Stages = std::map<std::string, DeviceUsage::Stage>;

Result<std::unique_ptr<Backend>> open_host(const Options& options) {
  HostBackendOptions host;
  host.few_processes = options.few_processes;
  if (options.device == "host:cuda") {
    LATHE_TRY(host.gpu, make_host_gpu({}));
  }
  return make_host_backend(host);
}

std::string variant(const std::string& text, int number) {
  static const std::regex kNumber("variant [0-9]+");
  return std::regex_replace(text, kNumber, fmt::format("variant {}", number)) +
         fmt::format("\n# variant {}\n", number);
}

Stages less(const Stages& after, const Stages& before) {
  Stages rest;
  for (const auto& [purpose, stage] : after) {
    const auto found = before.find(purpose);
    const DeviceUsage::Stage earlier = found == before.end() ? DeviceUsage::Stage{} : found->second;
    if (stage.count > earlier.count)
      rest[purpose] = {stage.seconds - earlier.seconds, stage.count - earlier.count};
  }
  return rest;
}

/// What was started, and parts of blocks, a candidate of `of`.
void print_stages(const Stages& stages, int of) {
  for (const auto& [purpose, stage] : stages)
    fmt::print("  {:<40} {:6.1f} of {:8.2f} ms\n", purpose,
               static_cast<double>(stage.count) / static_cast<double>(of),
               1e3 * stage.seconds / static_cast<double>(stage.count));
}

struct Series {
  std::map<std::string, std::vector<double>> seconds;
  std::map<std::string, int> outcomes;
  std::vector<double> speedups;

  void take(const Verdict& verdict) {
    for (const auto& [stage, spent] : verdict.stage_seconds) seconds[stage].push_back(spent);
    ++outcomes[std::string(name(verdict.outcome)) +
               (verdict.passed() ? "" : " " + verdict.reason + " " + verdict.detail.substr(0, 200))];
    for (const Speedup& speedup : verdict.speedups) speedups.push_back(speedup.ratio.mid);
  }
};

Status judge_files(const Options& options, const std::shared_ptr<const TaskSpec>& task, Backend& backend,
                   Evaluator& client, Depth depth) {
  for (const std::string& file : options.files) {
    LATHE_TRY(const std::string text, read_file(file));
    const Stages before = backend.usage().stages;
    const std::int64_t begin_ns = steady_clock().now_ns();
    for (int i = 1; i <= options.count; ++i)
      LATHE_CHECK_OK(client.submit({.task = task, .text = variant(text, i), .depth = depth}));
    Series series;
    while (client.in_flight() > 0) {
      auto evaluated = client.poll(1);
      if (!evaluated) continue;
      LATHE_TRY(const Verdict verdict, std::move(evaluated->verdict));
      series.take(verdict);
    }
    const double seconds = seconds_since(begin_ns);
    fmt::print("\n{}: {} candidates in {:.1f} s, {:.0f} an hour, {:.2f} s each; p50:", file, options.count,
               seconds, 3600.0 * options.count / seconds, seconds / options.count);
    for (const auto& [stage, spent] : series.seconds) fmt::print(" {} {:.2f} s,", stage, median(spent));
    if (!series.speedups.empty()) {
      std::ranges::sort(series.speedups);
      std::vector<double> logs;
      for (const double speedup : series.speedups) logs.push_back(std::log(speedup));
      fmt::print(" speedup {:.2f} ({:.2f} to {:.2f}, standard deviation {:.1f}%);", median(series.speedups),
                 series.speedups.front(), series.speedups.back(), 100 * stddev(logs));
    }
    for (const auto& [outcome, n] : series.outcomes) fmt::print(" {} {};", n, outcome);
    fmt::print(
        "\na candidate's processes, from asking for one to its first use, and the parts of its blocks:\n");
    print_stages(less(backend.usage().stages, before), options.count);
    std::fflush(stdout);
  }
  return Ok{};
}

Status run(const Options& options) {
  LATHE_TRY(const Depth depth, parse_depth(options.depth));
  const std::int64_t begin_ns = steady_clock().now_ns();
  LATHE_TRY(const auto backend, open_host(options));
  fmt::print("{}, {} cores, depth {}; the device was opened in {:.1f} s\n", backend->device().name,
             backend->device().cores, options.depth, seconds_since(begin_ns));
  RecordingSink sink;
  LATHE_TRY(TaskSpec parsed, load_task(options.task));
  LATHE_TRY(parsed, complete_task(*backend, std::move(parsed)));
  const auto task = std::make_shared<const TaskSpec>(std::move(parsed));
  GymOptions gym_options;
  gym_options.lanes = options.lanes;
  const auto gym = Gym::start(*backend, gym_options, sink);
  const auto client = gym->connect();
  const std::int64_t preparing_ns = steady_clock().now_ns();
  LATHE_TRY(const TaskBaselines baselines, client->baselines(task, {}));
  fmt::print("preparation {:.1f} s, a call of the module {:.1f} us:", seconds_since(preparing_ns),
             baselines.times.front().median_ns / 1e3);
  for (const Event& event : sink.events())
    if (event.kind == "gym.prepared")
      for (const auto& [part, seconds] : event.fields) fmt::print(" {} {},", part, seconds);
  fmt::print("\n");
  print_stages(backend->usage().stages, 1);
  return judge_files(options, task, *backend, *client, depth);
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  CLI::App app{"Measures Python candidates an hour"};
  lathe::Options options;
  app.add_option("TASK", options.task, "A task with a process reference")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("FILE", options.files, "Candidates")->required()->check(CLI::ExistingFile);
  app.add_option("--count", options.count, "How often each is submitted");
  app.add_option("--lanes", options.lanes,
                 "Evaluations under way at once; 0: as many as the device is worth");
  app.add_option("--depth", options.depth, "verify, screen or final");
  app.add_option("--device", options.device, "host:cpu or host:cuda")
      ->check(CLI::IsMember({"host:cpu", "host:cuda"}));
  app.add_flag("--few-processes", options.few_processes,
               "On a processor: processes serve several blocks and shapes, as on a GPU");
  CLI11_PARSE(app, argc, argv);
  const auto status = lathe::run(options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 1;
}
