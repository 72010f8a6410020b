#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "baseline/baseline.h"
#include "task/compare.h"
#include "task/generate_inputs.h"
#include "tests/baseline/candidate_library.h"
#include "tests/task/shipped_tasks.h"

namespace lathe {
namespace {

struct Contender {
  std::size_t task;
  std::string name;
};

/// Small shapes that no one tuned for; a fixed task's smallest scored one.
std::vector<Dims> awkward_shapes(const TaskSpec& task) {
  constexpr double kMostFlops = 2e7;
  std::vector<Dims> shapes = draw_hidden_shapes(task, Seed::from_number(7), 2, kMostFlops);
  if (shapes.empty()) shapes.push_back(task.shapes.back().dims);
  return shapes;
}

TEST(ShippedTasks, EveryBaselineIsWithinTheBoundAtAwkwardShapes) {
  const std::vector<TaskSpec> tasks = shipped_tasks();
  ASSERT_GE(tasks.size(), 40u);
  std::vector<Candidate> candidates;
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    auto baselines = make_baselines(tasks[i]);
    ASSERT_TRUE(baselines.ok()) << tasks[i].name << ": " << baselines.error().to_string();
    EXPECT_EQ(baselines->front().name, "naive");
    for (Baseline& baseline : *baselines) {
      EXPECT_TRUE(check_plan(baseline.candidate, tasks[i]).ok()) << tasks[i].name;
      contenders.push_back({i, baseline.name});
      candidates.push_back(std::move(baseline.candidate));
    }
  }
  const CandidateLibrary library(std::move(candidates));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto reference = make_reference(tasks[i]);
    ASSERT_TRUE(reference.ok());
    for (const Dims& dims : awkward_shapes(tasks[i])) {
      const auto bound = lathe::bind(tasks[i], dims);
      ASSERT_TRUE(bound.ok());
      for (const Distribution distribution : {Distribution::kNormal, Distribution::kHeavyTail}) {
        const auto inputs = generate_inputs(*bound, distribution, Seed::from_number(i));
        const auto expected = (*reference)->evaluate(*bound, inputs, Numerics{});
        ASSERT_TRUE(expected.ok()) << expected.error().to_string();
        for (std::size_t k = 0; k < contenders.size(); ++k) {
          if (contenders[k].task != i) continue;
          SCOPED_TRACE(tasks[i].name + " by " + contenders[k].name + " on " +
                       std::string(name(distribution)));
          const auto outputs = library.run(k, *bound, inputs);
          ASSERT_TRUE(outputs.ok()) << outputs.error().to_string();
          for (std::size_t out = 0; out < outputs->size(); ++out) {
            const Comparison comparison = compare((*expected)[out], (*outputs)[out], nullptr);
            EXPECT_TRUE(comparison.pass) << comparison.reason << " at " << comparison.first_bad << ": got "
                                         << comparison.got << ", want " << comparison.want << ", ratio "
                                         << comparison.worst_ratio << ", " << comparison.bad_count << " bad";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lathe
