#include "gym/evaluator.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/clock.h"
#include "tests/gym/fake_task.h"

namespace lathe {
namespace {

class EvaluatorTest : public testing::Test {
 protected:
  EvaluatorTest() : backend_(Seed::from_number(5)) { backend_.script("naive", timed(8000, 0.002)); }

  std::unique_ptr<Evaluator> evaluator() {
    EvaluatorOptions options;
    options.secret = Seed::from_number(9);
    auto made = Evaluator::create(twice_task(), backend_, options, null_sink());
    if (!made.ok()) ADD_FAILURE() << made.error().to_string();
    return made.ok() ? *std::move(made) : nullptr;
  }

  /// The verdict on a candidate that does what `kernel` says.
  Verdict verdict_on(const FakeKernel& kernel, Depth depth = Depth::kScreen, const std::string& extra = "") {
    backend_.script("candidate", kernel);
    const auto gym = evaluator();
    gym->submit({scripted("candidate", extra), depth, 7});
    const auto evaluated = gym->next();
    if (!evaluated) ADD_FAILURE() << "no verdict";
    EXPECT_EQ(evaluated->tag, 7);
    EXPECT_FALSE(gym->next());
    return evaluated->verdict;
  }

  static FakeKernel failing(BlockStatus status, const std::string& reason, int good_blocks = 0) {
    FakeKernel kernel;
    kernel.good_blocks = good_blocks;
    kernel.fault.status = status;
    kernel.fault.reason = reason;
    return kernel;
  }

  FakeBackend backend_;
};

TEST_F(EvaluatorTest, ARightKernelPassesWithItsSpeedup) {
  const Verdict verdict = verdict_on(timed(2000, 0.002));
  ASSERT_TRUE(verdict.passed()) << verdict.reason << verdict.detail;
  const auto speedup = verdict.speedup("naive");
  ASSERT_TRUE(speedup.has_value());
  EXPECT_NEAR(speedup->mid, 4, 0.05);
  EXPECT_LE(speedup->low, 4.02);
  EXPECT_GE(speedup->high, 3.98);
  EXPECT_NEAR(verdict.median_ns(), 2000, 20);
  EXPECT_FALSE(verdict.speedups[0].ambiguous);
}

TEST_F(EvaluatorTest, TheDeviceIsToldWhenAnEvaluationHasEnded) {
  backend_.script("candidate", timed(2000));
  const auto gym = evaluator();
  const std::int64_t prepared = backend_.rests();
  EXPECT_GT(prepared, 0) << "after each baseline's build";
  for (int i = 1; i <= 3; ++i) {
    gym->submit({scripted("candidate"), Depth::kVerify, i});
    ASSERT_TRUE(gym->next());
    EXPECT_EQ(backend_.rests(), prepared + i);
  }
}

TEST_F(EvaluatorTest, EveryBlockStatusHasItsOutcome) {
  const std::pair<BlockStatus, Outcome> cases[] = {{BlockStatus::kCrash, Outcome::kCrash},
                                                   {BlockStatus::kTimeout, Outcome::kTimeout},
                                                   {BlockStatus::kTampered, Outcome::kTampered},
                                                   {BlockStatus::kInfra, Outcome::kInfra}};
  for (const auto& [status, outcome] : cases) {
    const Verdict verdict = verdict_on(failing(status, "by_script"));
    EXPECT_EQ(verdict.outcome, outcome);
    EXPECT_EQ(verdict.reason, "by_script");
    EXPECT_TRUE(verdict.speedups.empty());
  }
}

TEST_F(EvaluatorTest, AFailureWhileItIsTimedLeavesNoSpeedup) {
  const Verdict verdict = verdict_on(failing(BlockStatus::kTampered, "late_write", 15));
  EXPECT_EQ(verdict.outcome, Outcome::kTampered);
  EXPECT_EQ(verdict.reason, "late_write");
  EXPECT_TRUE(verdict.speedups.empty());
  EXPECT_TRUE(verdict.timings.empty());
}

TEST_F(EvaluatorTest, AWrongOutputIsWrongWithTheComparisonsReason) {
  FakeKernel kernel;
  kernel.wrong = "tile_rms";
  const Verdict verdict = verdict_on(kernel);
  EXPECT_EQ(verdict.outcome, Outcome::kWrong);
  EXPECT_EQ(verdict.reason, "tile_rms");
  ASSERT_FALSE(verdict.evidence.cases.empty());
  EXPECT_FALSE(verdict.evidence.cases.back().pass);
}

TEST_F(EvaluatorTest, ABuildFaultIsTheCandidatesAndABrokenCompilerTheMachines) {
  FakeKernel kernel;
  kernel.build_fault = "constructor";
  kernel.build_outcome = Outcome::kTampered;
  EXPECT_EQ(verdict_on(kernel).outcome, Outcome::kTampered);
  kernel = {};
  kernel.build_infra = true;
  EXPECT_EQ(verdict_on(kernel).outcome, Outcome::kInfra);
  kernel = {};
  kernel.open_fault = "undefined_kernel";
  const Verdict undefined = verdict_on(kernel);
  EXPECT_EQ(undefined.outcome, Outcome::kBuildFailed);
  EXPECT_EQ(undefined.reason, "undefined_kernel");
  kernel = {};
  kernel.open_infra = true;
  EXPECT_EQ(verdict_on(kernel).outcome, Outcome::kInfra);
}

TEST_F(EvaluatorTest, AMachineFaultIsNeverAReward) {
  for (int good_blocks : {0, 5, 40, 60, 80}) {
    const Verdict verdict = verdict_on(failing(BlockStatus::kInfra, "runner_lost", good_blocks));
    if (verdict.passed()) continue;
    EXPECT_EQ(verdict.outcome, Outcome::kInfra);
    EXPECT_FALSE(verdict.speedup("naive").has_value());
  }
}

TEST_F(EvaluatorTest, AnAnchorThatFailsIsTheMachinesFault) {
  backend_.script("candidate", timed(2000));
  const auto gym = evaluator();
  FakeKernel broken = failing(BlockStatus::kCrash, "signal_9");
  backend_.script("naive", broken);
  gym->submit({scripted("candidate"), Depth::kFinal, 0});
  const auto evaluated = gym->next();
  ASSERT_TRUE(evaluated);
  EXPECT_EQ(evaluated->verdict.outcome, Outcome::kInfra);
  EXPECT_EQ(evaluated->verdict.reason, "anchor_failed");
}

TEST_F(EvaluatorTest, ARunnerThatDiesAgainAndAgainHurtsNobodyElse) {
  backend_.script("dies", failing(BlockStatus::kInfra, "runner_lost"));
  backend_.script("crashes", failing(BlockStatus::kCrash, "segfault"));
  backend_.script("good", timed(4000, 0.002));
  const auto gym = evaluator();
  for (int i = 0; i < 10; ++i)
    for (const char* name : {"dies", "crashes", "good"}) gym->submit({scripted(name), Depth::kScreen, i});
  int good = 0;
  while (const auto evaluated = gym->next()) {
    if (evaluated->candidate.name != "good") continue;
    EXPECT_TRUE(evaluated->verdict.passed()) << evaluated->verdict.reason;
    EXPECT_NEAR(evaluated->verdict.speedup("naive")->mid, 2, 0.05);
    ++good;
  }
  EXPECT_EQ(good, 10);
  EXPECT_EQ(gym->in_flight(), 0);
}

TEST_F(EvaluatorTest, CancelReturnsAtOnceAndEndsWaiting) {
  FakeKernel slow = timed(1000);
  slow.delay_seconds = 0.02;
  backend_.script("slow", slow);
  const auto gym = evaluator();
  for (int i = 0; i < 20; ++i) gym->submit({scripted("slow"), Depth::kScreen, i});
  std::thread waiter([&] {
    while (gym->next()) {
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto begin = steady_clock().now_ns();
  gym->cancel();
  EXPECT_LT(steady_clock().now_ns() - begin, 50'000'000);
  waiter.join();
  EXPECT_LT(steady_clock().now_ns() - begin, 1'000'000'000);
  gym->cancel();
}

TEST_F(EvaluatorTest, CancelKillsWhatRuns) {
  FakeKernel hangs = timed(1000);
  hangs.delay_seconds = 60;
  backend_.script("hangs", hangs);
  auto gym = evaluator();
  gym->submit({scripted("hangs"), Depth::kFinal, 0});
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gym->cancel();
  });
  const auto begin = steady_clock().now_ns();
  EXPECT_FALSE(gym->next()) << "a cancelled evaluation has no verdict";
  canceller.join();
  gym.reset();
  EXPECT_LT(steady_clock().now_ns() - begin, 500'000'000);
}

TEST_F(EvaluatorTest, ATokenCancelsPreparationToo) {
  FakeKernel slow = timed(8000);
  slow.delay_seconds = 60;
  backend_.script("naive", slow);
  EvaluatorOptions options;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    options.cancel.cancel();
  });
  const auto begin = steady_clock().now_ns();
  const auto made = Evaluator::create(twice_task(), backend_, options, null_sink());
  canceller.join();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kCancelled);
  EXPECT_LT(steady_clock().now_ns() - begin, 500'000'000);
}

TEST_F(EvaluatorTest, CancellingOneEvaluatorLeavesOthersOfTheSameOptionsAlone) {
  EvaluatorOptions options;
  backend_.script("good", timed(4000));
  (*Evaluator::create(twice_task(), backend_, options, null_sink()))->cancel();
  const auto second = Evaluator::create(twice_task(), backend_, options, null_sink());
  ASSERT_TRUE(second.ok());
  (*second)->submit({scripted("good"), Depth::kScreen, 0});
  EXPECT_TRUE((*second)->next());
}

TEST_F(EvaluatorTest, AProfileFollowsAFinalThatPassed) {
  FakeKernel kernel = timed(2000);
  kernel.counters = {{"dram_share", 0.8}};
  const Verdict verdict = verdict_on(kernel, Depth::kProfile);
  ASSERT_TRUE(verdict.passed()) << verdict.reason;
  EXPECT_GT(verdict.timings.front().processes, 1) << "timed as at final";
  ASSERT_EQ(verdict.profiles.size(), 1u);
  EXPECT_EQ(verdict.profiles[0].shape, verdict.timings[0].shape);
  EXPECT_EQ(verdict.profiles[0].bottlenecks.at(0).name, "dram_bound");
  EXPECT_TRUE(verdict.profiles[0].notes.empty());
  EXPECT_TRUE(verdict_on(kernel, Depth::kFinal).profiles.empty());
  kernel.wrong = "bound";
  EXPECT_TRUE(verdict_on(kernel, Depth::kProfile).profiles.empty());
}

TEST_F(EvaluatorTest, ADeviceWithoutCountersSaysSoAndPasses) {
  const Verdict verdict = verdict_on(timed(2000), Depth::kProfile);
  ASSERT_TRUE(verdict.passed());
  ASSERT_EQ(verdict.profiles.size(), 1u);
  EXPECT_TRUE(verdict.profiles[0].counters.empty());
  EXPECT_EQ(verdict.profiles[0].notes.size(), 1u);
}

TEST_F(EvaluatorTest, RequiresNarrowsTheDomainInsteadOfFailing) {
  FakeKernel kernel = timed(2000);
  kernel.wrong = "bound";
  kernel.wrong_rows = 15;  // would be wrong there, but says that it does not serve it
  EXPECT_TRUE(verdict_on(kernel, Depth::kFinal, "requires = \"n == 16\"").passed());
  const Verdict nowhere = verdict_on(timed(2000), Depth::kScreen, "requires = \"n == 17\"");
  EXPECT_EQ(nowhere.outcome, Outcome::kBuildFailed);
  EXPECT_EQ(nowhere.reason, "domain");
}

TEST_F(EvaluatorTest, AKernelThatIsRightAtThePublishedShapeAloneIsWrong) {
  int wrong = 0;
  for (std::int64_t n = 1; n <= 64; ++n) {
    if (n == 16) continue;
    FakeKernel kernel = timed(2000);
    kernel.wrong = "bound";
    kernel.wrong_rows = n;
    wrong += verdict_on(kernel, Depth::kVerify).outcome == Outcome::kWrong ? 1 : 0;
  }
  EXPECT_EQ(wrong, 3);  // each of the hidden shapes, and nobody knows which
}

TEST_F(EvaluatorTest, AFinalDrawsHiddenShapesAnew) {
  const Verdict first = verdict_on(timed(2000), Depth::kFinal);
  std::set<std::string> shapes;
  for (const CaseEvidence& one : first.evidence.cases) shapes.insert(one.shape);
  EXPECT_GT(shapes.size(), 4u);
}

TEST_F(EvaluatorTest, ABadPlanIsABuildFailureThatNamesThePlace) {
  const auto gym = evaluator();
  auto candidate = parse_candidate("/*lathe\n[[launch]]\nkernel = \"f\"\nargs = [\"x\", \"z\"]\n*/\n", "bad");
  ASSERT_TRUE(candidate.ok());
  gym->submit({*candidate, Depth::kScreen, 0});
  const auto evaluated = gym->next();
  ASSERT_TRUE(evaluated);
  EXPECT_EQ(evaluated->verdict.outcome, Outcome::kBuildFailed);
  EXPECT_EQ(evaluated->verdict.reason, "bad_plan");
}

TEST_F(EvaluatorTest, ANaiveBuildThatFailsIsAnErrorOfTheTask) {
  FakeKernel broken;
  broken.wrong = "bound";
  backend_.script("naive", broken);
  EXPECT_FALSE(Evaluator::create(twice_task(), backend_, {}, null_sink()).ok());
}

}  // namespace
}  // namespace lathe
