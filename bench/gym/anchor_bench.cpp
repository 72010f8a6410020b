// Which anchor makes repeated screens of a kernel agree? Runs blocks of all baselines of a softmax
// and of kernels of the catalogue in turn for a while, and then replays screens from random places
// of the record, with each kernel as the candidate and each other as its anchor.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/clock.h"
#include "base/random.h"
#include "base/statistics.h"
#include "baseline/baseline.h"
#include "bench/device.h"
#include "gym/bench_shape.h"
#include "gym/pair_timer.h"
#include "policy/catalog/catalog.h"
#include "policy/policy.h"
#include "task/reference.h"

namespace lathe {
namespace {

struct Options {
  std::int64_t rows = 512, columns = 1024;
  double seconds = 20;
  int screens = 60, pause_ms = 0, bursts = 1;
  std::string device = "cpu";
};

struct Contender {
  std::string name;
  std::unique_ptr<Session> session;
  int calls = 1;
  std::vector<double> call_ns = {};  ///< one a round: the better of two blocks
};

std::string task_text(const Options& options) {
  return fmt::format(R"toml(name = "softmax"
dims = {{ rows = [1, 65536], cols = [1, 65536] }}
tensor = [{{ name = "x", shape = ["rows", "cols"] }}]
graph = "y = softmax(x, axis = 1)"
shape = [{{ rows = {}, cols = {} }}]
)toml",
                     options.rows, options.columns);
}

struct Replay {
  double inside = 0, half_width = 0, spread = 0, mean = 0;
};

/// Screens of `candidate` against `anchor` that begin at random rounds.
Replay replay(const Contender& anchor, const Contender& candidate, const Options& options, Rng& rng) {
  const TimingRule rule = screen_rule();
  const auto rounds = static_cast<int>(anchor.call_ns.size());
  const double alpha = rule.alpha / static_cast<double>(rule.looks.size());
  std::vector<Interval> screens;
  for (int s = 0; s < options.screens; ++s) {
    const int first = static_cast<int>(rng.below(static_cast<std::uint64_t>(rounds - rule.looks.back())));
    std::vector<double> samples;
    Interval interval;
    for (const int look : rule.looks) {
      for (int i = static_cast<int>(samples.size()); i < look; ++i) {
        const auto at = static_cast<std::size_t>(first + i);
        samples.push_back(std::log(anchor.call_ns[at] / candidate.call_ns[at]));
      }
      interval = signed_rank_interval(samples, alpha);
      if ((interval.high - interval.low) / 2 <= rule.half_width) break;
    }
    screens.push_back(interval);
  }
  Replay result;
  std::vector<double> widths, middles;
  int pairs = 0, inside = 0;
  for (const Interval& one : screens) {
    widths.push_back((one.high - one.low) / 2);
    middles.push_back(one.mid);
    for (const Interval& other : screens) {
      if (&one == &other) continue;
      ++pairs;
      inside += one.low <= other.mid && other.mid <= one.high;
    }
  }
  return {100.0 * inside / pairs, 100 * median(widths), 100 * stddev(middles), std::exp(mean(middles))};
}

Status run(const Options& options) {
  LATHE_TRY(TaskSpec spec, parse_task(task_text(options), "softmax.toml"));
  const auto task = std::make_shared<const TaskSpec>(std::move(spec));
  LATHE_TRY(const auto backend, open_device(options.device));
  LATHE_TRY(const BoundTask bound, bind(*task, task->shapes.front().dims));
  LATHE_TRY(const auto reference, make_reference(*task));
  LATHE_TRY(const auto workload,
            make_timing_workload(*backend, *reference, bound, Seed::from_number(7), 32, {}));
  LATHE_TRY(const DevicePeaks peaks, backend->peaks());

  std::vector<std::pair<std::string, Candidate>> candidates;
  LATHE_TRY(auto baselines, make_baselines(*task, backend->device().dialect));
  for (Baseline& one : baselines) candidates.emplace_back(one.name, std::move(one.candidate));
  const auto policy = make_catalog_policy();
  int number = 0;
  for (const Candidate& one : catalog_anchors({task, backend->device(), peaks}))
    candidates.emplace_back(fmt::format("catalogue {}", ++number), one);
  // The same kernel again in a process of its own, and a variant of it.
  if (number > 0) {
    candidates.emplace_back("catalogue again", candidates.back().second);
    std::string text = candidates.back().second.text;
    if (const auto at = text.find("exp("); at != std::string::npos) text.replace(at, 4, "exp(0.0f + ");
    if (auto variant = parse_candidate(text, "variant"); variant.ok())
      candidates.emplace_back("variant", *std::move(variant));
  }
  std::vector<Contender> contenders;
  for (auto& [name, candidate] : candidates) {
    LATHE_TRY(const BuildResult built, backend->build(candidate, bound));
    if (!built.ok) {
      fmt::print(stderr, "{} does not build: {}\n", name, built.facts.log.substr(0, 300));
      continue;
    }
    LATHE_TRY(auto session, backend->open(candidate, built.artifact, workload, Runner{Runner::kFresh}));
    Contender& one = contenders.emplace_back(Contender{name, std::move(session)});
    const QuickTime quick = time_quickly(*one.session, *workload, screen_rule(), Seed::from_number(3));
    one.calls = static_cast<int>(
        std::clamp(std::ceil(3e5 / quick.call_ns), 1.0, static_cast<double>(workload->trials.size())));
    fmt::print(stderr, "{}: {:.1f} us, {} calls a block\n", name, quick.call_ns / 1e3, one.calls);
  }
  Rng rng(Seed::from_number(11));
  const auto begin = steady_clock().now_ns();
  const auto lease = backend->lease(DeviceLane::Use::kTiming, DeviceLane::Grain::kStage);
  while (seconds_since(begin) < options.seconds) {
    std::vector<double> best(contenders.size(), 1e18);
    for (int block = 0; block < 2; ++block)
      for (std::size_t k = 0; k < contenders.size(); ++k) {
        const std::size_t c = block == 0 ? k : contenders.size() - 1 - k;
        BlockRequest request;
        for (int i = 0; i < static_cast<int>(workload->trials.size()); ++i) request.trials.push_back(i);
        rng.shuffle(request.trials);
        request.trials.resize(static_cast<std::size_t>(contenders[c].calls));
        request.check_fraction = 0.01;
        request.secret = rng.next();
        request.timed = true;
        const BlockOutcome outcome = contenders[c].session->run(request);
        if (outcome.status != BlockStatus::kOk)
          return Error{ErrorCode::kInternal, contenders[c].name + ": " + outcome.reason};
        best[c] = std::min(best[c], outcome.wall_ns / contenders[c].calls);
      }
    for (std::size_t c = 0; c < contenders.size(); ++c) contenders[c].call_ns.push_back(best[c]);
  }
  fmt::print("{} x {}, {} rounds in {:.0f} s\n\n", options.rows, options.columns,
             contenders.front().call_ns.size(), seconds_since(begin));
  fmt::print("| kernel | us: 5% | 50% | 95% |\n|---|---|---|---|\n");
  for (const Contender& one : contenders)
    fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} |\n", one.name, quantile(one.call_ns, 0.05) / 1e3,
               quantile(one.call_ns, 0.5) / 1e3, quantile(one.call_ns, 0.95) / 1e3);
  fmt::print("\n| candidate | anchor | inside | half-width | spread | ratio |\n|---|---|---|---|---|---|\n");
  for (const Contender& candidate : contenders)
    for (const Contender& anchor : contenders) {
      if (&anchor == &candidate) continue;
      const Replay result = replay(anchor, candidate, options, rng);
      fmt::print("| {} | {} | {:.0f}% | {:.1f}% | {:.1f}% | {:.3f} |\n", candidate.name, anchor.name,
                 result.inside, result.half_width, result.spread, result.mean);
    }
  return Ok{};
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  CLI::App app{"Which anchor makes repeated screens agree"};
  lathe::Options options;
  app.add_option("--rows", options.rows, "Of the softmax");
  app.add_option("--columns", options.columns, "Of the softmax");
  app.add_option("--seconds", options.seconds, "To record");
  app.add_option("--screens", options.screens, "To replay for each pair of kernels");
  lathe::add_device(app, options.device);
  CLI11_PARSE(app, argc, argv);
  const auto status = lathe::run(options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 1;
}
