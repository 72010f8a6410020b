// Catalogue kernels against the naive build, without the gym: catalog_bench [TASK ...] [--proposals
// N]. One row a task at its headline shape: naive time, default schedule, best of N proposals.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "baseline/baseline.h"
#include "policy/catalog/catalog.h"
#include "task/generate_inputs.h"
#include "tests/policy/candidate_runner.h"

namespace lathe {
namespace {

struct Options {
  std::vector<std::string> tasks;
  int proposals = 12;
  bool show = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--proposals") == 0 && i + 1 < argc) {
      options.proposals = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--show") == 0) {
      options.show = true;
    } else {
      options.tasks.emplace_back(argv[i]);
    }
  }
  if (options.tasks.empty())
    for (const auto& entry : std::filesystem::directory_iterator(LATHE_SOURCE_DIR "/tasks"))
      options.tasks.push_back(entry.path().stem());
  std::sort(options.tasks.begin(), options.tasks.end());
  return options;
}

void bench(const std::string& name, const Options& options) {
  auto loaded = load_task(std::string(LATHE_SOURCE_DIR "/tasks/") + name + ".toml");
  if (!loaded.ok()) return void(std::printf("%s\n", loaded.error().to_string().c_str()));
  const auto task = std::make_shared<const TaskSpec>(*std::move(loaded));
  const auto naive = naive_candidate(*task);
  const auto proposals = propose_now(*make_catalog_policy(), {.context = {task, DeviceInfo{}, DevicePeaks{}},
                                                              .count = options.proposals,
                                                              .seed = Seed::from_number(1)});
  if (!naive.ok() || !proposals.ok()) return void(std::printf("%-24s -\n", name.c_str()));
  CandidateRunner base_runner, runner;
  base_runner.add(*naive);
  base_runner.build();
  std::vector<Candidate> candidates;
  for (const Proposal& proposal : *proposals) {
    candidates.push_back(*parse_candidate(proposal.text, name));
    runner.add(candidates.back());
  }
  runner.build();
  for (const NamedShape& shape : task->shapes) {
    const auto bound = bind(*task, shape.dims);
    const auto inputs = generate_inputs(*bound, Distribution::kNormal, Seed::from_number(1));
    const double base = base_runner.best_ns(0, *bound, inputs, 0.2);
    std::vector<double> times;
    for (std::size_t i = 0; i < candidates.size(); ++i)
      times.push_back(runner.best_ns(static_cast<int>(i), *bound, inputs, 0.1));
    const auto best = std::min_element(times.begin(), times.end());
    const auto& winner = candidates[static_cast<std::size_t>(best - times.begin())];
    std::printf(
        "%-24s %-10s naive %9.1f us  default %9.1f us (%5.2fx)  best %9.1f us (%5.2fx) %6.1f GF %6.1f GB/s  "
        "%s\n",
        name.c_str(), shape.name.c_str(), base / 1e3, times[0] / 1e3, base / times[0], *best / 1e3,
        base / *best, bound->flops / *best, bound->bytes_min / *best, winner.plan().knobs.c_str());
    if (options.show)
      for (std::size_t i = 0; i < times.size(); ++i)
        std::printf("    %9.1f us  %s\n", times[i] / 1e3, candidates[i].plan().knobs.c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  const lathe::Options options = lathe::parse(argc, argv);
  for (const std::string& task : options.tasks) lathe::bench(task, options);
  return 0;
}
