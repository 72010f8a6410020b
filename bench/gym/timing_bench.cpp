// How honest the gym's clock is: the naive build against itself, and against copies that do 1%, 3%
// and 10% more work. Prints for each depth the share of false wins (lower bound above 1 for equal
// work), the share of intervals that hold the truth, how often the middle of one evaluation falls
// inside the interval of another, and how often extra work is seen (losses). On a GPU the work is
// always equal.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/clock.h"
#include "base/statistics.h"
#include "bench/device.h"
#include "bench/gym/timing_probe.h"
#include "gym/gym.h"

namespace lathe {
namespace {

struct Options {
  int screens = 200, finals = 200, slower = 50, lanes = 0;
  std::string device = "cpu";
  bool together = false;
};

struct Tally {
  int total = 0;
  int wins = 0;
  int losses = 0;
  int covered = 0;  ///< the interval holds the true ratio
  std::vector<Interval> ratios;
  std::map<std::string, double> stage_seconds;  ///< sums
};

void add(Tally& tally, const Verdict& verdict, double truth) {
  const auto ratio = verdict.speedup("naive");
  if (!verdict.passed() || !ratio) {
    fmt::print(stderr, "{} {} {}\n", name(verdict.outcome), verdict.reason, verdict.detail);
    return;
  }
  ++tally.total;
  tally.wins += ratio->low > 1;
  tally.losses += ratio->high < 1;
  tally.covered += ratio->low <= truth && truth <= ratio->high;
  tally.ratios.push_back(*ratio);
  for (const auto& [stage, seconds] : verdict.stage_seconds) tally.stage_seconds[stage] += seconds;
}

std::string stage_means(const Tally& tally) {
  std::vector<std::string> means;
  for (const auto& [stage, seconds] : tally.stage_seconds)
    if (stage != "queue") means.push_back(fmt::format("{} {:.2f}", stage, seconds / tally.total));
  return fmt::format("{}", fmt::join(means, ", "));
}

/// The share of (interval, other evaluation) pairs in which the other falls inside.
double repeats_inside(const std::vector<Interval>& ratios) {
  int inside = 0, pairs = 0;
  for (const Interval& interval : ratios)
    for (const Interval& other : ratios) {
      if (&other == &interval) continue;
      ++pairs;
      inside += interval.low <= other.mid && other.mid <= interval.high;
    }
  return pairs == 0 ? 0 : 100.0 * inside / pairs;
}

double median_half_width(const std::vector<Interval>& ratios) {
  std::vector<double> widths;
  for (const Interval& ratio : ratios) widths.push_back((ratio.high - ratio.low) / 2 / ratio.mid);
  return widths.empty() ? 0 : 100 * median(widths);
}

std::vector<double> log_middles(const std::vector<Interval>& ratios) {
  std::vector<double> logs;
  for (const Interval& ratio : ratios) logs.push_back(std::log(ratio.mid));
  return logs;
}

double share(int part, const Tally& tally) { return tally.total == 0 ? 0 : 100.0 * part / tally.total; }

class TimingBench {
 public:
  TimingBench(const Options& options, Backend& backend, TaskSpec task)
      : options_(options),
        dialect_(backend.device().dialect),
        task_(std::make_shared<const TaskSpec>(std::move(task))),
        gym_(Gym::start(backend, gym_options(options), null_sink())),
        evaluator_(gym_->connect()) {}

  /// Prints a row.
  Status measure(Depth depth, int extra_percent, int repeats) {
    if (repeats == 0) return Ok{};
    Tally tally;
    const double truth = 1.0 / (1.0 + extra_percent / 100.0);
    const auto begin = steady_clock().now_ns();
    for (int i = 0; i < repeats; ++i) {
      LATHE_TRY(std::string text, timing_probe(*task_, dialect_, extra_percent, i));
      LATHE_CHECK_OK(evaluator_->submit({.task = task_, .text = std::move(text), .depth = depth}));
      if (!options_.together) LATHE_CHECK_OK(take_one(truth, tally));
    }
    while (evaluator_->in_flight() > 0) LATHE_CHECK_OK(take_one(truth, tally));
    const double seconds = seconds_since(begin);
    fmt::print(
        "| {} | +{}% | {} | {:.1f}% | {:.1f}% | {:.1f}% | {:.1f}% | {:.2f}% | {:.4f} | {:.2f}% | {:.2f} | {} "
        "|\n",
        name(depth), extra_percent, tally.total, share(tally.wins, tally), share(tally.losses, tally),
        share(tally.covered, tally), repeats_inside(tally.ratios), median_half_width(tally.ratios),
        std::exp(mean(log_middles(tally.ratios))), 100 * stddev(log_middles(tally.ratios)),
        seconds / std::max(1, tally.total), stage_means(tally));
    std::fflush(stdout);
    return Ok{};
  }

 private:
  static GymOptions gym_options(const Options& options) {
    GymOptions gym;
    gym.lanes = options.lanes;
    return gym;
  }

  Status take_one(double truth, Tally& tally) {
    for (;;) {
      auto evaluated = evaluator_->poll(1);
      if (!evaluated) continue;
      LATHE_TRY(const Verdict verdict, std::move(evaluated->verdict));
      add(tally, verdict, truth);
      return Ok{};
    }
  }

  const Options& options_;
  const Dialect dialect_;
  std::shared_ptr<const TaskSpec> task_;
  std::unique_ptr<Gym> gym_;
  std::unique_ptr<Evaluator> evaluator_;
};

Status run(const Options& options) {
  const bool gpu = options.device == "cuda";
  LATHE_TRY(TaskSpec task, timing_task(gpu ? Dialect::kCuda : Dialect::kCpu));
  LATHE_TRY(const auto backend, open_device(options.device));
  TimingBench bench(options, *backend, std::move(task));
  fmt::print("{}; every row against the naive build of the same task{}\n\n", backend->device().name,
             options.together ? ", all submitted at once" : "");
  fmt::print(
      "| depth | work | n | wins | losses | interval holds the truth | repeats inside | "
      "half-width | mean ratio | spread | s each | of these "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int extra : {0, 1, 3, 10})
    if (!gpu || extra == 0) LATHE_CHECK_OK(bench.measure(Depth::kScreen, extra, options.screens));
  LATHE_CHECK_OK(bench.measure(Depth::kFinal, 0, options.finals));
  for (const int extra : {1, 3, 10})
    if (!gpu) LATHE_CHECK_OK(bench.measure(Depth::kFinal, extra, options.slower));
  return Ok{};
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  CLI::App app{"Measures the gym's own timing"};
  lathe::Options options;
  app.add_option("--screens", options.screens, "Evaluations at screen for each amount of work");
  app.add_option("--finals", options.finals, "Evaluations at final of equal work");
  app.add_option("--slower-finals", options.slower, "Evaluations at final for each amount of more work");
  app.add_option("--lanes", options.lanes, "Evaluations at once; 0: as many as the device is worth");
  app.add_flag("--together", options.together, "Submit all of a row at once");
  lathe::add_device(app, options.device);
  CLI11_PARSE(app, argc, argv);
  const auto status = lathe::run(options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 1;
}
