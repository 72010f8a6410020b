// How honest the gym's clock is: the naive build against itself, and against copies that do 1%, 3% and 10%
// more work. Prints for each depth the share of false wins (lower bound above 1 for equal work), the share of
// intervals that hold the truth, how often the middle of one evaluation falls inside the interval of another,
// and how often extra work is seen (losses).

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "backend/cpu/cpu_backend.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "baseline/baseline.h"
#include "gym/gym.h"

namespace lathe {
namespace {

constexpr const char* kTask = R"toml(
name = "timing_probe"
description = "Enough arithmetic a row that a row more is a row's time more."
dims = { rows = [1, 4096], cols = [1, 4096] }
tensor = [{ name = "x", shape = ["rows", "cols"] }]
graph = "y = gelu(x)"
baselines = ["naive"]
[[shape]]
name = "timed"
rows = 100
cols = 256
)toml";

/// The naive build itself; with more work, a copy of it that computes its first items again.
Result<std::string> probe(const TaskSpec& task, int extra_percent, int copy) {
  LATHE_TRY(const Candidate naive, naive_candidate(task));
  std::string text = naive.text + fmt::format("// copy {}\n", copy);
  if (extra_percent > 0) {
    const std::string head =
        "extern \"C\" void naive_y(const float* x, float* __restrict y, int64_t begin, int64_t end)";
    const std::size_t at = text.find(head);
    if (at == std::string::npos) return invalid("the naive build has another signature");
    text.replace(
        at, head.size(),
        "__attribute__((noinline)) static void once(const float* x, float* __restrict y, int64_t begin, "
        "int64_t end)");
    text +=
        head +
        fmt::format(
            " {{\n  once(x, y, begin, end);\n  once(x, y, begin, begin + (end - begin) * {} / 100);\n}}\n",
            extra_percent);
  }
  return text;
}

struct Tally {
  int total = 0;
  int wins = 0;
  int losses = 0;
  int covered = 0;  ///< the interval holds the true ratio
  std::vector<Interval> ratios;
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

Status measure(const std::shared_ptr<const TaskSpec>& task, Evaluator& evaluator, Depth depth,
               int extra_percent, int repeats) {
  if (repeats == 0) return Ok{};
  Tally tally;
  const auto begin = steady_clock().now_ns();
  for (int i = 0; i < repeats; ++i) {
    LATHE_TRY(std::string text, probe(*task, extra_percent, i));
    LATHE_TRY(const Verdict verdict,
              evaluate_alone(evaluator, {.task = task, .text = std::move(text), .depth = depth}));
    add(tally, verdict, 1.0 / (1.0 + extra_percent / 100.0));
  }
  const double seconds = seconds_since(begin);
  fmt::print(
      "| {} | +{}% | {} | {:.1f}% | {:.1f}% | {:.1f}% | {:.1f}% | {:.2f}% | {:.4f} | {:.2f}% | {:.2f} |\n",
      name(depth), extra_percent, tally.total, share(tally.wins, tally), share(tally.losses, tally),
      share(tally.covered, tally), repeats_inside(tally.ratios), median_half_width(tally.ratios),
      std::exp(mean(log_middles(tally.ratios))), 100 * stddev(log_middles(tally.ratios)),
      seconds / std::max(1, tally.total));
  std::fflush(stdout);
  return Ok{};
}

Status run(int screens, int finals, int slower) {
  LATHE_TRY(TaskSpec parsed, parse_task(kTask, "timing_probe.toml"));
  const auto task = std::make_shared<const TaskSpec>(std::move(parsed));
  LATHE_TRY(auto backend, make_cpu_backend({}));
  const auto gym = Gym::start(*backend, {}, null_sink());
  const auto evaluator = gym->connect();
  fmt::print("{}, 1 thread; every row against the naive build of the same task\n\n", backend->device().name);
  fmt::print(
      "| depth | work | n | wins | losses | interval holds the truth | repeats inside | "
      "half-width | mean ratio | spread | s each |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int extra : {0, 1, 3, 10})
    LATHE_CHECK_OK(measure(task, *evaluator, Depth::kScreen, extra, screens));
  LATHE_CHECK_OK(measure(task, *evaluator, Depth::kFinal, 0, finals));
  for (const int extra : {1, 3, 10}) LATHE_CHECK_OK(measure(task, *evaluator, Depth::kFinal, extra, slower));
  return Ok{};
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  CLI::App app{"Measures the gym's own timing"};
  int screens = 200, finals = 200, slower = 50;
  app.add_option("--screens", screens, "Evaluations at screen for each amount of work");
  app.add_option("--finals", finals, "Evaluations at final of equal work");
  app.add_option("--slower-finals", slower, "Evaluations at final for each amount of more work");
  CLI11_PARSE(app, argc, argv);
  const auto status = lathe::run(screens, finals, slower);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 1;
}
