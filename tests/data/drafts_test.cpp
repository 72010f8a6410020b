#include "data/drafts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "backend/fake/fake_backend.h"
#include "candidate/candidate.h"
#include "data/factory.h"
#include "data/split.h"
#include "policy/catalog/catalog.h"

namespace lathe {
namespace {

using nlohmann::json;

class DraftsTest : public testing::Test {
 protected:
  DraftsTest() : backend_(Seed::from_number(5)), prompter_(*Prompter::load(LATHE_SOURCE_DIR "/prompts")) {
    options_.tasks = 24;
    options_.generate = {.min_nodes = 1, .max_nodes = 2, .max_elements = 1 << 12};
  }

  Drafts drafts() {
    auto made =
        draft_examples({backend_.device(), *backend_.peaks(), prompter_, make_catalog_policy, {}}, options_);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return *std::move(made);
  }

  static std::vector<json> examples(const Drafts& drafts) {
    std::vector<json> all;
    std::istringstream stream(drafts.lines);
    for (std::string line; std::getline(stream, line);) all.push_back(json::parse(line));
    return all;
  }

  FakeBackend backend_;
  Prompter prompter_;
  DraftOptions options_;
};

TEST_F(DraftsTest, AnswersAreKernelsOfTheTasksThatPromptsDescribe) {
  const Drafts made = drafts();
  EXPECT_EQ(static_cast<int>(examples(made).size()), made.examples);
  EXPECT_GT(made.examples, static_cast<int>(made.tasks.size())) << "two kernels of most tasks";
  for (const json& example : examples(made)) {
    EXPECT_EQ(example["kind"], "draft");
    EXPECT_NE(example["prompt"].get<std::string>().find(example["task_name"]), std::string::npos);
    const std::string kernel = candidate_in(example["answer"].get<std::string>());
    EXPECT_TRUE(parse_candidate(kernel, "answer").ok());
    EXPECT_EQ(example["candidate"], digest_of(kernel).hex());
  }
}

TEST_F(DraftsTest, HeldOutCompositionsAreLeftOut) {
  options_.tasks = 60;
  const Drafts made = drafts();
  EXPECT_GT(made.held_out, 0);
  EXPECT_EQ(static_cast<int>(made.tasks.size()) + made.held_out + made.without, options_.tasks);
  std::set<std::string> drafted;
  for (const json& example : examples(made)) drafted.insert(example["task_name"]);
  for (int i = 0; i < options_.tasks; ++i) {
    const auto task = parse_task(
        *generate_task(options_.seed + static_cast<std::uint64_t>(i), options_.generate), "generated");
    EXPECT_FALSE(is_held_out(composition_of(*task)) && drafted.contains(task->name)) << task->name;
  }
}

TEST_F(DraftsTest, OtherExtentsAreOfTheSameCompositionAndNoneIsTheExams) {
  options_.tasks = 12;
  options_.kernels = 1;
  const Drafts alone = drafts();
  options_.extents = 3;
  const Drafts made = drafts();
  EXPECT_GT(made.tasks.size(), 2 * alone.tasks.size());
  EXPECT_LE(made.tasks.size(), 3 * alone.tasks.size());
  EXPECT_EQ(made.examples, static_cast<int>(made.tasks.size()));
  std::set<std::pair<std::string, Dims>> seen;
  for (const auto& task : made.tasks)
    EXPECT_TRUE(seen.emplace(composition_of(*task) + task->name.substr(0, task->name.rfind('_')),
                             task->shapes.front().dims)
                    .second)
        << task->name;
  DataOptions exam{.seed = options_.seed, .tasks = options_.tasks, .generate = options_.generate};
  const auto examined = held_out_tasks(exam, {});
  ASSERT_TRUE(examined.ok());
  for (const HeldOutTask& one : *examined)
    for (const auto& task : made.tasks)
      EXPECT_FALSE(one.task->name.starts_with(task->name + "_") &&
                   one.task->shapes.front().dims == task->shapes.front().dims)
          << one.task->name;
}

TEST_F(DraftsTest, ExamsOfEqualSeedsHaveTheirTasksInEqualOrder) {
  const DataOptions exam{.seed = options_.seed, .tasks = options_.tasks, .generate = options_.generate};
  std::vector<std::vector<std::string>> names(2);
  for (auto& one : names) {
    const auto tasks = held_out_tasks(exam, {});
    ASSERT_TRUE(tasks.ok());
    for (const HeldOutTask& held : *tasks) one.push_back(held.task->name);
  }
  EXPECT_GT(names[0].size(), 1U);
  EXPECT_EQ(names[0], names[1]);
}

TEST_F(DraftsTest, VariedKernelsAreOthersThanTheFirstAndComeBesideIt) {
  options_.kernels = 1;
  const Drafts first = drafts();
  options_.varied = 3;
  const Drafts made = drafts();
  EXPECT_GT(made.examples, 2 * first.examples) << "few tasks have a single kernel";
  EXPECT_LE(made.examples, 4 * first.examples);
  const auto key = [](const json& example) {
    return std::pair<std::string, std::string>(example["task"], example["candidate"]);
  };
  std::set<std::pair<std::string, std::string>> kernels;
  for (const json& example : examples(made)) {
    EXPECT_TRUE(kernels.insert(key(example)).second) << "none comes twice";
    EXPECT_TRUE(parse_candidate(candidate_in(example["answer"].get<std::string>()), "answer").ok());
  }
  for (const json& example : examples(first)) EXPECT_TRUE(kernels.contains(key(example)));
  EXPECT_EQ(made.lines, drafts().lines) << "equal seeds give equal lines";
}

TEST_F(DraftsTest, EqualSeedsGiveEqualLines) { EXPECT_EQ(drafts().lines, drafts().lines); }

}  // namespace
}  // namespace lathe
