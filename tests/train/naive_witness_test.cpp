#include "train/naive_witness.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/model/fixtures.h"

namespace lathe::train {
namespace {

/// Passes every answer.
class LenientGym final : public rl::Gym {
 public:
  std::size_t tasks() const override { return 1; }
  std::string_view task_name(std::size_t /*task*/) const override { return "sums"; }
  std::string composition(std::size_t /*task*/) const override { return "sum"; }
  std::string_view peer(std::size_t /*task*/) const override { return "naive"; }
  Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& /*seed*/) override {
    return std::vector<Verdict>(questions.size());
  }
};

/// Asks a program that answers with these lines.
Result<std::vector<Verdict>> judge_with(std::span<const rl::Gym::Question> questions,
                                        const std::string& lines) {
  const TemporaryFolder folder;
  const std::string program = folder.path() + "/lathe";
  std::ofstream(program) << "#!/bin/sh\ncat > /dev/null\nprintf '" << lines << "'\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  LenientGym gym;
  return NaiveWitness(gym, {program, "tasks", "cpu"}).judge(questions, Seed::from_number(1));
}

/// A grader that could not run says nothing of an answer: no more that it refused it than that it
/// took it for fast.
TEST(NaiveWitness, AnAnswerThatCouldNotBeAskedAboutHasNoSpeedup) {
  const std::vector<rl::Gym::Question> questions(3, {.task = 0, .text = "kernel"});
  const auto verdicts = judge_with(questions, R"({"naive":"faster","naive_speedup":2.5}\n)"
                                              R"({"naive":"unavailable","naive_speedup":0.0}\n)"
                                              R"({"naive":"refused","naive_speedup":0.0}\n)");
  ASSERT_TRUE(verdicts.ok()) << verdicts.error().to_string();
  EXPECT_EQ((*verdicts)[0].profile.at(rl::kNaiveSpeedup), 2.5);
  EXPECT_FALSE((*verdicts)[1].profile.contains(rl::kNaiveSpeedup));
  EXPECT_EQ((*verdicts)[2].profile.at(rl::kNaiveSpeedup), 0);
}

TEST(NaiveWitness, WhatNobodyCanReadIsRefusedUnasked) {
  const Error unreadable{ErrorCode::kInvalid, "no kernel"};
  const std::vector<rl::Gym::Question> questions = {{.task = 0, .text = "", .unreadable = &unreadable},
                                                    {.task = 0, .text = "kernel"}};
  const auto verdicts = judge_with(questions, R"({"naive":"faster","naive_speedup":2}\n)");
  ASSERT_TRUE(verdicts.ok()) << verdicts.error().to_string();
  EXPECT_EQ((*verdicts)[0].profile.at(rl::kNaiveSpeedup), 0);
  EXPECT_EQ((*verdicts)[1].profile.at(rl::kNaiveSpeedup), 2);
}

TEST(NaiveWitness, FewerAnswersThanQuestionsAreAnError) {
  const std::vector<rl::Gym::Question> questions(2, {.task = 0, .text = "kernel"});
  EXPECT_FALSE(judge_with(questions, R"({"naive":"faster","naive_speedup":2}\n)").ok());
}

}  // namespace
}  // namespace lathe::train
