#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "baseline/baseline.h"
#include "task/compare.h"
#include "task/sample.h"
#include "tests/baseline/candidate_library.h"
#include "tests/baseline/honest_variants.h"
#include "tests/task/shipped_tasks.h"

namespace lathe {
namespace {

constexpr double kMostFlops = 1e6;

/// The largest error over tolerance, and the largest RMS error over the limit that the naive build
/// sets.
struct Worst {
  double ratio = 0;
  double rms = 0;
  int accused = 0;
};

struct Contender {
  std::size_t task;
  std::string name;
  Worst worst = {};
};

std::vector<TaskSpec> all_tasks() {
  std::vector<TaskSpec> tasks = shipped_tasks();
  for (const HonestVariant& variant : honest_variants())
    if (std::ranges::none_of(tasks, [&](const TaskSpec& t) { return t.name == variant.task.name; })) {
      tasks.push_back(make_task(variant.task));
      for (auto& [dim, range] : tasks.back().dim_ranges)
        range.high = dim == "rows" && variant.task.name == "honest_mse" ? 1 << 18 : 4096;
    }
  return tasks;
}

/// Everything that is honest: the naive build, the libraries' and the variants; the naive build
/// first.
class Stress : public testing::Test {
 protected:
  Stress() : tasks_(all_tasks()) {
    std::vector<Candidate> candidates;
    const auto add = [&](std::size_t task, std::string name, Candidate candidate) {
      contenders_.push_back({task, std::move(name)});
      candidates.push_back(std::move(candidate));
    };
    const auto variants = honest_variants();
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      auto baselines = make_baselines(tasks_[i]);
      for (Baseline& baseline : *baselines) add(i, std::move(baseline.name), std::move(baseline.candidate));
      for (const HonestVariant& variant : variants)
        if (variant.task.name == tasks_[i].name)
          add(i, variant.name, *parse_candidate(variant.text, variant.name));
    }
    library_ = std::make_unique<CandidateLibrary>(std::move(candidates));
  }

  /// A hidden shape; where a task has rows, also a single long one, whose errors share one sum's.
  void run(std::size_t task, const Seed& seed) {
    std::vector<Dims> shapes = draw_hidden_shapes(tasks_[task], seed, 1, kMostFlops);
    if (shapes.empty()) shapes.push_back(tasks_[task].shapes.back().dims);
    Dims row = shapes[0];
    if (row.contains("rows") && row.contains("cols")) {
      row["rows"] = 1;
      row["cols"] = Rng(seed.derive("row")).between(512, 4096);
      if (lathe::bind(tasks_[task], row).ok()) run(task, row, seed);
    }
    run(task, shapes[0], seed);
  }

  /// All distributions.
  void run(std::size_t task, const Dims& dims, const Seed& seed) {
    const auto bound = lathe::bind(tasks_[task], dims);
    ASSERT_TRUE(bound.ok());
    const auto reference = make_reference(tasks_[task]);
    for (const Distribution distribution : all_distributions()) {
      const auto sample = draw_sample(**reference, *bound, distribution, seed);
      ASSERT_TRUE(sample.ok()) << sample.error().to_string();
      if (*sample)
        judge(task, *bound, (*sample)->inputs, (*sample)->expected, std::string(name(distribution)));
    }
  }

  void judge(std::size_t task, const BoundTask& bound, std::span<const HostTensor> inputs,
             const std::vector<Expected>& expected, const std::string& distribution) {
    std::vector<RmsLimit> limits;
    for (std::size_t k = 0; k < contenders_.size(); ++k) {
      Contender& contender = contenders_[k];
      if (contender.task != task) continue;
      const auto outputs = library_->run(k, bound, inputs);
      if (!outputs.ok() && contender.name != "naive") continue;  // a library may refuse a shape
      ASSERT_TRUE(outputs.ok()) << outputs.error().to_string();
      for (std::size_t i = 0; i < outputs->size(); ++i) {
        if (limits.size() < outputs->size()) limits.push_back(measure_rms(expected[i], (*outputs)[i]));
        const Comparison comparison = compare(expected[i], (*outputs)[i], &limits[i]);
        contender.worst.ratio = std::max(contender.worst.ratio, comparison.worst_ratio);
        if (expected[i].value.data.size() >= 512)
          contender.worst.rms = std::max(contender.worst.rms, comparison.rms_error / (8 * limits[i].global));
        contender.worst.accused += comparison.pass ? 0 : 1;
        std::string dims;
        for (const auto& [dim, extent] : bound.dims) dims += fmt::format(" {}={}", dim, extent);
        EXPECT_TRUE(comparison.pass) << bound.spec->name << " by " << contender.name << " on " << distribution
                                     << dims << ": " << comparison.reason << ", " << comparison.worst_ratio
                                     << " of the tolerance, RMS " << comparison.rms_error << " for "
                                     << limits[i].global;
      }
    }
  }

  void print() const {
    for (const Contender& contender : contenders_)
      std::printf("%-24s %-12s bound %.3f rms %.3f accused %d\n", tasks_[contender.task].name.c_str(),
                  contender.name.c_str(), contender.worst.ratio, contender.worst.rms,
                  contender.worst.accused);
  }

  std::vector<TaskSpec> tasks_;
  std::vector<Contender> contenders_;
  std::unique_ptr<CandidateLibrary> library_;
};

/// LATHE_STRESS_SEEDS=300 draws so many shapes of each task and prints the worst errors.
TEST_F(Stress, NoHonestKernelIsAccused) {
  const char* text = std::getenv("LATHE_STRESS_SEEDS");
  const int seeds = text ? std::atoi(text) : 1;
  for (int seed = 0; seed < seeds; ++seed)
    for (std::size_t task = 0; task < tasks_.size(); ++task)
      run(task, Seed::from_number(static_cast<std::uint64_t>(seed)).derive(tasks_[task].name));
  if (text) print();
}

}  // namespace
}  // namespace lathe
