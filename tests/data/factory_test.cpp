#include "data/factory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "backend/fake/fake_backend.h"
#include "data/card.h"
#include "gym/gym.h"
#include "policy/catalog/catalog.h"
#include "policy/catalog/schedule_language.h"
#include "record/json.h"
#include "tests/search/stop_after.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class FactoryTest : public testing::Test {
 protected:
  FactoryTest() : backend_(Seed::from_number(5)), prompter_(*Prompter::load(LATHE_SOURCE_DIR "/prompts")) {
    options_.tasks = 3;
    options_.evaluations = 6;
    options_.faults = 3;
    options_.generate = {.min_nodes = 1, .max_nodes = 2, .max_elements = 1 << 12};
  }

  Result<DataSummary> sit(EventSink& events = null_sink(), const CancelToken& stop = {}) {
    const auto gym = Gym::start(backend_, {}, null_sink());
    const auto evaluator = gym->connect();
    const auto policy = make_catalog_policy();
    return make_data({backend_.device(), *backend_.peaks(), *policy, *evaluator, *store_, events, stop},
                     options_);
  }

  std::vector<DataTask> tasks(Store& store) { return *read_data(store, {options_.seed}); }

  LanguageData examples_in(const std::vector<DataTask>& tasks, const ActionLanguage& language) {
    auto data = write_examples(tasks, language, prompter_, {}, {});
    EXPECT_TRUE(data.ok()) << data.error().to_string();
    return *std::move(data);
  }

  static std::vector<json> parsed(const LanguageData& data) {
    std::vector<json> examples;
    for (const auto& [split, lines] : data.lines) {
      std::istringstream stream(lines);
      for (std::string line; std::getline(stream, line);) examples.push_back(*parse_json(line, "line"));
    }
    return examples;
  }

  std::vector<json> examples() { return parsed(examples_in(tasks(*store_), *kernel_language())); }

  FakeBackend backend_;
  const Prompter prompter_;
  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = open_or_fail(folder_.path());
  DataOptions options_;
};

TEST_F(FactoryTest, MakesEveryTaskOnce) {
  const auto first = sit();
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_EQ(first->made + first->unprepared, 3);
  const std::size_t examples_before = examples().size();
  EXPECT_GT(examples_before, 0u);
  const auto again = sit();
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->made, 0);
  EXPECT_EQ(again->known, 3);
  EXPECT_EQ(examples().size(), examples_before);
}

TEST_F(FactoryTest, AStoppedSittingLosesNothingAndCountsNothingTwice) {
  const CancelToken stop;
  StopAfter events(stop, 4);
  const auto first = sit(events, stop);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_TRUE(first->interrupted);
  const auto rest = sit();
  ASSERT_TRUE(rest.ok()) << rest.error().to_string();
  EXPECT_EQ(rest->made + rest->unprepared + rest->known, 3);
  for (int index = 0; index < 3; ++index) {
    const auto experiences = *store_->experiences(data_run_id(1, index));
    std::set<Digest> candidates;
    for (const Experience& experience : experiences) candidates.insert(experience.candidate);
    EXPECT_EQ(candidates.size(), experiences.size());
    EXPECT_LE(experiences.size(), 9u);
  }
}

TEST_F(FactoryTest, WhatTheMachineFailedIsTriedAgain) {
  FakeKernel broken;
  broken.open_infra = true;
  backend_.script("naive", broken);
  const auto first = sit();
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_EQ(first->unprepared, 3);
  backend_.forget("naive");
  const auto again = sit();
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->known, 0);
  EXPECT_GT(again->made, 0);
}

TEST_F(FactoryTest, FurtherKernelsAreVerifiedAndNotTimed) {
  options_.verified = 12;
  options_.evaluations = 2;
  options_.faults = 0;
  ASSERT_TRUE(sit().ok());
  int verified = 0;
  for (int index = 0; index < 3; ++index) {
    const auto experiences = *store_->experiences(data_run_id(1, index));
    for (const Experience& experience : experiences) {
      if (experience.verdict.depth != Depth::kVerify) continue;
      ++verified;
      EXPECT_EQ(experience.lineage.policy, "catalog");
      EXPECT_TRUE(experience.verdict.timings.empty());
    }
  }
  EXPECT_GT(verified, 6);
  const auto again = sit();
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->made, 0);
}

TEST_F(FactoryTest, AnAnswerIsAKernelThatPassedAndAPromptShowsWhatFailed) {
  ASSERT_TRUE(sit().ok());
  std::set<std::string> answers;
  for (const json& example : examples()) {
    EXPECT_THAT(example["answer"].get<std::string>(), HasSubstr("/*lathe"));
    EXPECT_THAT(example["prompt"].get<std::string>(), HasSubstr("# Task: generated_"));
    EXPECT_EQ(example["kind"] != "first",
              example["prompt"].get<std::string>().find("# Earlier attempts") != std::string::npos);
    EXPECT_NE(example["lineage"]["policy"], "fault");
  }
}

TEST_F(FactoryTest, WritesFilesOfEachSplitWithTheTasksAndACard) {
  ASSERT_TRUE(sit().ok());
  const std::string out = folder_.path() + "/out";
  const auto made = tasks(*store_);
  ASSERT_TRUE(make_directories(out).ok());
  const Status written = write_data(
      made, {examples_in(made, *kernel_language()), examples_in(made, *make_schedule_language())}, out);
  ASSERT_TRUE(written.ok()) << written.error().to_string();
  for (const char* file : {"train.jsonl", "shapes.jsonl", "compositions.jsonl", "train.schedule.jsonl"})
    EXPECT_TRUE(std::filesystem::exists(out + "/" + file)) << file;
  for (const DataTask& task : made)
    EXPECT_TRUE(std::filesystem::exists(
        fmt::format("{}/tasks/{}/{}.toml", out, name(task.split), task.run.task_name)));
  const std::string card = *read_file(out + "/card.md");
  EXPECT_THAT(card, HasSubstr("occur in training"));
  EXPECT_THAT(card, HasSubstr("PASS (ok)"));
}

TEST_F(FactoryTest, NoHeldOutCompositionOccursInTrainingAndReshapedTasksDo) {
  options_.tasks = 24;
  options_.evaluations = 1;
  options_.faults = 0;
  ASSERT_TRUE(sit().ok());
  std::map<Split, std::set<std::string>> compositions;
  for (const DataTask& task : tasks(*store_)) compositions[task.split].insert(task.composition);
  for (const Split split : {Split::kTrain, Split::kShapes, Split::kCompositions})
    EXPECT_FALSE(compositions[split].empty()) << name(split);
  for (const std::string& composition : compositions[Split::kCompositions])
    EXPECT_FALSE(compositions[Split::kTrain].contains(composition)) << composition;
  for (const std::string& composition : compositions[Split::kShapes])
    EXPECT_TRUE(compositions[Split::kTrain].contains(composition)) << composition;
}

TEST_F(FactoryTest, ScheduleAnswersMeanKernelsThatPassed) {
  ASSERT_TRUE(sit().ok());
  const auto language = make_schedule_language();
  const auto made = tasks(*store_);
  const auto examples = parsed(examples_in(made, *language));
  ASSERT_FALSE(examples.empty());
  for (const json& example : examples) {
    EXPECT_THAT(example["prompt"].get<std::string>(), HasSubstr("The default schedule:"));
    const auto task = std::ranges::find_if(
        made, [&](const DataTask& one) { return one.run.id == example["run"].get<std::string>(); });
    const auto text = language->candidate({task->task, task->device.device, task->device.peaks},
                                          example["answer"].get<std::string>());
    ASSERT_TRUE(text.ok()) << text.error().to_string();
    EXPECT_EQ(digest_of(*text).hex(), example["candidate"]);
  }
}

TEST_F(FactoryTest, StoresAreJoinedAndWhatTheyShareIsWrittenOnce) {
  ASSERT_TRUE(sit().ok());
  auto joined = tasks(*store_);
  const auto once = examples_in(joined, *kernel_language());
  const auto same = tasks(*store_);
  joined.insert(joined.end(), same.begin(), same.end());
  EXPECT_EQ(examples_in(joined, *kernel_language()).lines, once.lines);
}

TEST_F(FactoryTest, AStoreRemembersTheDevice) {
  ASSERT_TRUE(sit().ok());
  const DeviceRecord device = tasks(*store_).front().device;
  EXPECT_EQ(device.device.name, backend_.device().name);
  EXPECT_EQ(device.device.threads, backend_.device().threads);
  EXPECT_EQ(device.device.facts, backend_.device().facts);
  EXPECT_EQ(device.peaks.flops_per_second, backend_.peaks()->flops_per_second);
  EXPECT_EQ(device.peaks.levels.size(), backend_.peaks()->levels.size());
}

TEST_F(FactoryTest, AStoreWithoutDataSaysHowToMakeSome) {
  const auto tasks = read_data(*store_, {99});
  ASSERT_FALSE(tasks.ok());
  EXPECT_EQ(tasks.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(tasks.error().hint, HasSubstr("lathe data make"));
}

}  // namespace
}  // namespace lathe
