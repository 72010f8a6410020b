#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "policy/catalog/compile.h"
#include "task/compare.h"
#include "task/generate_inputs.h"
#include "tests/policy/candidate_runner.h"
#include "tests/task/shipped_tasks.h"

namespace lathe {
namespace {

std::vector<std::string> task_files() {
  std::vector<std::string> files = shipped_task_files();
  if (const char* only = std::getenv("LATHE_TASK"))
    std::erase_if(files, [&](const std::string& path) { return std::filesystem::path(path).stem() != only; });
  return files;
}

struct Emitted {
  const TaskSpec* task;
  std::string label;
  int index;
};

/// Runs one candidate at one shape on two distributions; an empty string when all is within the
/// tolerance.
std::string check(const CandidateRunner& runner, const Emitted& emitted, const Reference& reference,
                  const Dims& dims, int threads) {
  const auto bound = bind(*emitted.task, dims);
  if (!bound.ok()) return bound.error().to_string();
  for (const Distribution distribution : {Distribution::kNormal, Distribution::kCancellation}) {
    const std::vector<HostTensor> inputs = generate_inputs(*bound, distribution, Seed::from_number(7));
    const auto expected = reference.evaluate(*bound, inputs, Numerics{});
    if (!expected.ok()) return expected.error().to_string();
    const auto outputs = runner.run(emitted.index, *bound, inputs, threads);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Comparison result = compare((*expected)[i], outputs[i], nullptr);
      if (result.pass) continue;
      std::string shape;
      for (const auto& [name, value] : dims) shape += " " + name + "=" + std::to_string(value);
      return emitted.label + " " + std::string(name(distribution)) + shape + ": " + (*expected)[i].name +
             " " + result.reason + " at " + std::to_string(result.first_bad) + " got " +
             std::to_string(result.got) + " want " + std::to_string(result.want) + ", " +
             std::to_string(result.bad_count) + " bad";
    }
  }
  return {};
}

/// Every task with its default schedule and `random` others, at its smallest scored shape and at
/// hidden ones.
void check_all_tasks(int random, int hidden) {
  std::vector<std::unique_ptr<TaskSpec>> tasks;
  std::vector<Emitted> all;
  CandidateRunner runner;
  int known = 0;
  Rng rng(Seed::from_number(1));
  for (const std::string& path : task_files()) {
    auto task = load_task(path);
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    tasks.push_back(std::make_unique<TaskSpec>(std::move(*task)));
    const TaskSpec& spec = *tasks.back();
    const auto graph = catalog::lower(spec);
    if (!graph.ok()) {
      std::printf("%s: %s\n", spec.name.c_str(), graph.error().to_string().c_str());
      continue;
    }
    bool any = false;
    for (int i = 0; i <= random; ++i) {
      const auto emission = catalog::compile(*graph, {}, i == 0 ? nullptr : &rng);
      if (!emission.ok()) {
        std::printf("%s: %s\n", spec.name.c_str(), emission.error().to_string().c_str());
        continue;
      }
      if (std::getenv("LATHE_SHOW") != nullptr) std::printf("%s\n", emission->text.c_str());
      const auto candidate = parse_candidate(emission->text, spec.name);
      ASSERT_TRUE(candidate.ok()) << candidate.error().to_string() << "\n" << emission->text;
      const auto checked = check_plan(*candidate, spec);
      ASSERT_TRUE(checked.ok()) << checked.error().to_string() << "\n" << emission->text;
      all.push_back(
          {&spec, spec.name + " [" + catalog::to_text(emission->schedule) + "]", runner.add(*candidate)});
      any = true;
    }
    known += any ? 1 : 0;
  }
  runner.build();
  for (const Emitted& emitted : all) {
    const auto reference = make_reference(*emitted.task);
    ASSERT_TRUE(reference.ok()) << reference.error().to_string();
    std::vector<Dims> shapes = draw_hidden_shapes(*emitted.task, Seed::from_number(3), hidden, 2e7);
    if (shapes.empty()) shapes.push_back(emitted.task->shapes.back().dims);
    int threads = 1;
    for (const Dims& dims : shapes) {
      EXPECT_EQ(check(runner, emitted, **reference, dims, threads), "");
      threads = threads % 3 + 1;
    }
  }
  std::printf("%d of %zu tasks have candidates\n", known, task_files().size());
}

TEST(CatalogSlow, RandomSchedulesAreCorrectAtAwkwardShapes) { check_all_tasks(2, 2); }

TEST(Catalog, DefaultSchedulesAreCorrectAtAwkwardShapes) { check_all_tasks(0, 4); }

}  // namespace
}  // namespace lathe
