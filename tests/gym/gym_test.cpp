#include "gym/gym.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "tests/gym/fake_task.h"

namespace lathe {
namespace {

class GymTest : public testing::Test {
 protected:
  GymTest() : backend_(Seed::from_number(5)) { backend_.script("naive", timed(8000, 0.002)); }

  /// A gym with one client.
  struct Connected {
    std::unique_ptr<Gym> gym;
    std::unique_ptr<Evaluator> client;
    Evaluator* operator->() const { return client.get(); }
  };

  static GymOptions options() {
    GymOptions options;
    options.secret = Seed::from_number(9);
    return options;
  }

  Connected connect(const GymOptions& given = options()) {
    Connected connected{Gym::start(backend_, given, null_sink()), nullptr};
    connected.client = connected.gym->connect();
    return connected;
  }

  static EvaluationRequest request(const std::string& name, Depth depth = Depth::kScreen,
                                   const std::string& extra = "") {
    const Candidate candidate = scripted(name, extra);
    return {.task = shared_twice_task(), .text = candidate.text, .name = name, .depth = depth};
  }

  static Ticket submit(const Connected& gym, const EvaluationRequest& request) {
    const auto ticket = gym->submit(request);
    EXPECT_TRUE(ticket.ok());
    return ticket.ok() ? *ticket : 0;
  }

  /// The next that is finished, within a minute.
  static std::optional<Evaluated> next(const Connected& gym) { return gym->poll(60); }

  /// The verdict on a candidate that does what `kernel` says.
  Verdict verdict_on(const FakeKernel& kernel, Depth depth = Depth::kScreen, const std::string& extra = "") {
    backend_.script("candidate", kernel);
    const auto gym = connect();
    auto verdict = evaluate_alone(*gym.client, request("candidate", depth, extra));
    if (!verdict.ok()) ADD_FAILURE() << verdict.error().to_string();
    EXPECT_EQ(gym->in_flight(), 0);
    return verdict.ok() ? *std::move(verdict) : Verdict{};
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

TEST_F(GymTest, ARightKernelPassesWithItsSpeedup) {
  const Verdict verdict = verdict_on(timed(2000, 0.002));
  ASSERT_TRUE(verdict.passed()) << verdict.reason << verdict.detail;
  const auto speedup = verdict.speedup("naive");
  ASSERT_TRUE(speedup.has_value());
  EXPECT_NEAR(speedup->mid, 4, 0.05);
  EXPECT_LE(speedup->low, 4.02);
  EXPECT_GE(speedup->high, 3.98);
  EXPECT_NEAR(verdict.median_ns(), 2000, 20);
  EXPECT_FALSE(verdict.speedups[0].ambiguous);
  EXPECT_EQ(verdict.text_bytes, static_cast<std::int64_t>(request("candidate").text.size()));
}

TEST_F(GymTest, ATaskIsPreparedOnASteadyDeviceToo) {
  backend_.set_steady();
  const Verdict verdict = verdict_on(timed(2000));
  ASSERT_TRUE(verdict.passed()) << verdict.reason << verdict.detail;
  EXPECT_NEAR(verdict.speedup("naive")->mid, 4, 0.05);
}

/// Every verdict says a bit of which outputs are known.
TEST_F(GymTest, WhatALargeOutputIsTimedOnIsDrawnAnewAfter64Timings) {
  const auto task = parse_task(R"toml(
name = "doubled"
dims = { n = [1, 2097152] }
tensor = [{ name = "x", shape = ["n"] }]
graph = "y = add(x, x)"
shape = [{ name = "large", n = 2097152 }]
)toml",
                               "doubled.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  // A memory's time for so much.
  backend_.script("naive", timed(8e7));
  backend_.script("candidate", timed(2e7));
  const auto gym = connect();
  const auto prepared_by = [&](const std::shared_ptr<const TaskSpec>& spec, int evaluations) {
    std::vector<std::int64_t> prepared;
    for (int i = 0; i < evaluations; ++i) {
      EvaluationRequest one = request("candidate", Depth::kScreen, "# " + std::to_string(i) + "\n");
      one.task = spec;
      const auto verdict = evaluate_alone(*gym.client, one);
      EXPECT_TRUE(verdict.ok() && verdict->passed())
          << (verdict.ok() ? verdict->detail : verdict.error().message);
      prepared.push_back(backend_.prepared());
    }
    return prepared;
  };
  const auto large = prepared_by(std::make_shared<const TaskSpec>(*task), 130);
  EXPECT_EQ(large[62], large[0]);
  EXPECT_EQ(large[63], large[0] + 1);
  EXPECT_EQ(large[126], large[0] + 1);
  EXPECT_EQ(large[127], large[0] + 2);
  const auto small = prepared_by(shared_twice_task(), 70);
  EXPECT_EQ(small.back(), small.front()) << "all is known of it";
}

TEST_F(GymTest, ANaiveBuildThatIsWrongPreparesNothing) {
  FakeKernel wrong = timed(8000);
  wrong.wrong = "value";
  backend_.script("naive", wrong);
  const auto made = connect()->baselines(shared_twice_task(), {});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("naive"), std::string::npos);
}

TEST_F(GymTest, APeerThatIsWrongIsNoContenderAndIsNamed) {
  const auto task = parse_task(R"toml(
name = "probabilities"
dims = { n = [1, 64] }
tensor = [{ name = "x", shape = ["n", "n"] }]
graph = "y = softmax(x)"
baselines = ["naive", "onednn"]
shape = [{ name = "small", n = 16 }]
)toml",
                               "probabilities.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  FakeKernel wrong = timed(4000);
  wrong.wrong = "value";
  backend_.script("onednn", wrong);
  const auto made = connect()->baselines(std::make_shared<const TaskSpec>(*task), {});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->best, "naive");
  EXPECT_EQ(made->left_out, std::vector<std::string>{"onednn: value"});
}

/// Its text is the naive kernel as well: who writes std::vector in it is told so.
TEST_F(GymTest, ANativeReferenceThatIsNoKernelIsTheTasksFault) {
  const std::string folder = testing::TempDir();
  ASSERT_TRUE(
      write_file_atomically(folder + "/own.cpp",
                            "extern \"C\" void reference(const double* const* in, double* const* out, "
                            "const long long* dims) {\n"
                            "  for (long long i = 0; i < dims[0]; ++i) out[0][i] = 2 * in[0][i];\n}\n")
          .ok());
  const auto task = parse_task(R"(name = "own"
reference = "native"
source = "own.cpp"
dims = ["n"]
tensor = [{ name = "x", shape = ["n"] }]
output = [{ name = "y", shape = ["n"] }]
shape = [{ n = 16 }])",
                               folder + "/own.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  FakeKernel refused;
  refused.build_fault = "unknown_function";
  backend_.script("naive", refused);
  const auto made = connect()->baselines(std::make_shared<const TaskSpec>(*task), {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
  EXPECT_NE(made.error().message.find("own.cpp"), std::string::npos);
  EXPECT_NE(made.error().message.find("unknown_function"), std::string::npos);
  EXPECT_NE(made.error().hint.find("std::vector"), std::string::npos);
}

TEST_F(GymTest, TheDeviceIsToldWhenAnEvaluationHasEnded) {
  backend_.script("candidate", timed(2000));
  const auto gym = connect();
  ASSERT_TRUE(gym->baselines(shared_twice_task(), {}).ok());
  const std::int64_t prepared = backend_.idles();
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(evaluate_alone(*gym.client, request("candidate", Depth::kVerify)).ok());
    EXPECT_EQ(backend_.idles(), prepared + i);
  }
}

TEST_F(GymTest, AHostProgramIsABuildThatFailed) {
  const auto gym = connect();
  const auto verdict = evaluate_alone(
      *gym.client, {.task = shared_twice_task(),
                    .text = "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"ModelNew\"\n\"\"\"\n"});
  ASSERT_TRUE(verdict.ok()) << verdict.error().to_string();
  EXPECT_EQ(verdict->outcome, Outcome::kBuildFailed);
  EXPECT_EQ(verdict->reason, "host_program");
}

TEST_F(GymTest, EveryBlockStatusHasItsOutcome) {
  const std::pair<BlockStatus, Outcome> cases[] = {{BlockStatus::kCrash, Outcome::kCrash},
                                                   {BlockStatus::kTimeout, Outcome::kTimeout},
                                                   {BlockStatus::kTampered, Outcome::kTampered}};
  for (const auto& [status, outcome] : cases) {
    const Verdict verdict = verdict_on(failing(status, "by_script"));
    EXPECT_EQ(verdict.outcome, outcome);
    EXPECT_EQ(verdict.reason, "by_script");
    EXPECT_TRUE(verdict.speedups.empty());
  }
}

TEST_F(GymTest, AFailureWhileItIsTimedLeavesNoSpeedup) {
  const Verdict verdict = verdict_on(failing(BlockStatus::kTampered, "late_write", 15));
  EXPECT_EQ(verdict.outcome, Outcome::kTampered);
  EXPECT_EQ(verdict.reason, "late_write");
  EXPECT_TRUE(verdict.speedups.empty());
  EXPECT_TRUE(verdict.timings.empty());
}

TEST_F(GymTest, AWrongOutputIsWrongWithTheComparisonsReason) {
  FakeKernel kernel;
  kernel.wrong = "tile_rms";
  const Verdict verdict = verdict_on(kernel);
  EXPECT_EQ(verdict.outcome, Outcome::kWrong);
  EXPECT_EQ(verdict.reason, "tile_rms");
  ASSERT_FALSE(verdict.evidence.cases.empty());
  EXPECT_FALSE(verdict.evidence.cases.back().pass);
}

TEST_F(GymTest, ABuildFaultIsTheCandidatesAndABrokenCompilerTheMachines) {
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
  EXPECT_EQ(verdict_on(kernel).outcome, Outcome::kCrash) << "the naive build can be opened";
}

TEST_F(GymTest, AMachineThatFailsWithOneCandidateAloneIsThatCandidatesCrash) {
  for (int good_blocks : {0, 5, 40, 60, 80}) {
    const Verdict verdict = verdict_on(failing(BlockStatus::kInfra, "runner_lost", good_blocks));
    if (verdict.passed()) continue;
    EXPECT_EQ(verdict.outcome, Outcome::kCrash);
    EXPECT_EQ(verdict.reason, "runner_lost");
    EXPECT_FALSE(verdict.speedup("naive").has_value());
  }
}

TEST_F(GymTest, AMachineThatFailsOnceCostsNothing) {
  FakeKernel kernel = failing(BlockStatus::kInfra, "runner_lost", 5);
  kernel.bad_blocks = 1;
  const Verdict verdict = verdict_on(kernel);
  EXPECT_TRUE(verdict.passed()) << verdict.reason;
}

TEST_F(GymTest, AMachineThatFailsWithTheNaiveBuildTooHasNoVerdict) {
  backend_.script("candidate", failing(BlockStatus::kInfra, "runner_lost"));
  const auto gym = connect();
  ASSERT_TRUE(gym->baselines(shared_twice_task(), {}).ok());
  backend_.script("naive", failing(BlockStatus::kInfra, "runner_lost"));
  const auto verdict = evaluate_alone(*gym.client, request("candidate", Depth::kVerify));
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->outcome, Outcome::kInfra);
  EXPECT_EQ(verdict->reason, "runner_lost");
}

TEST_F(GymTest, AFullDeviceIsNoCandidatesFault) {
  backend_.script("candidate", timed(2000));
  const auto gym = connect();
  ASSERT_TRUE(gym->baselines(shared_twice_task(), {}).ok());
  backend_.set_full();
  const auto verdict = evaluate_alone(*gym.client, request("candidate", Depth::kVerify));
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->outcome, Outcome::kInfra) << verdict->detail;
}

TEST_F(GymTest, AnAnchorThatFailsIsTheMachinesFault) {
  backend_.script("candidate", timed(2000));
  const auto gym = connect();
  ASSERT_TRUE(gym->baselines(shared_twice_task(), {}).ok());
  backend_.script("naive", failing(BlockStatus::kCrash, "signal_9"));
  const auto verdict = evaluate_alone(*gym.client, request("candidate", Depth::kFinal));
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->outcome, Outcome::kInfra);
  EXPECT_EQ(verdict->reason, "anchor_failed");
}

TEST_F(GymTest, ARunnerThatDiesAgainAndAgainHurtsNobodyElse) {
  backend_.script("dies", failing(BlockStatus::kInfra, "runner_lost"));
  backend_.script("crashes", failing(BlockStatus::kCrash, "segfault"));
  backend_.script("good", timed(4000, 0.002));
  const auto gym = connect();
  std::set<Ticket> good;
  for (int i = 0; i < 10; ++i)
    for (const char* name : {"dies", "crashes", "good"}) {
      const Ticket ticket = submit(gym, request(name));
      if (name == std::string("good")) good.insert(ticket);
    }
  int passed = 0;
  while (gym->in_flight() > 0) {
    const auto evaluated = next(gym);
    ASSERT_TRUE(evaluated && evaluated->verdict.ok());
    if (!good.contains(evaluated->ticket)) continue;
    EXPECT_TRUE(evaluated->verdict->passed()) << evaluated->verdict->reason;
    EXPECT_NEAR(evaluated->verdict->speedup("naive")->mid, 2, 0.05);
    ++passed;
  }
  EXPECT_EQ(passed, 10);
  EXPECT_FALSE(next(gym)) << "nothing is in flight, so nothing is waited for";
}

TEST_F(GymTest, ATokenEndsEverythingAtOnce) {
  FakeKernel hangs = timed(1000);
  hangs.delay_seconds = 60;
  backend_.script("hangs", hangs);
  const GymOptions given = options();
  Connected gym = connect(given);
  ASSERT_TRUE(gym->baselines(shared_twice_task(), {}).ok());
  for (int i = 0; i < 20; ++i) submit(gym, request("hangs", Depth::kFinal));
  EXPECT_FALSE(gym->poll(0.05));
  const auto begin = steady_clock().now_ns();
  given.cancel.cancel();
  for (int i = 0; i < 20; ++i) {
    const auto evaluated = next(gym);
    ASSERT_TRUE(evaluated);
    ASSERT_FALSE(evaluated->verdict.ok()) << "a cancelled evaluation has no verdict";
    EXPECT_EQ(evaluated->verdict.error().code, ErrorCode::kCancelled);
  }
  gym.client.reset();
  gym.gym.reset();
  EXPECT_LT(steady_clock().now_ns() - begin, 1'000'000'000);
}

TEST_F(GymTest, ATokenCancelsPreparationToo) {
  FakeKernel slow = timed(8000);
  slow.delay_seconds = 60;
  backend_.script("naive", slow);
  const GymOptions given = options();
  const auto gym = connect(given);
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    given.cancel.cancel();
  });
  const auto begin = steady_clock().now_ns();
  const auto made = gym->baselines(shared_twice_task(), {});
  canceller.join();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kCancelled);
  EXPECT_LT(steady_clock().now_ns() - begin, 1'000'000'000);
}

TEST_F(GymTest, CancellingOneRequestLeavesTheOthersAlone) {
  FakeKernel hangs = timed(1000);
  hangs.delay_seconds = 60;
  backend_.script("hangs", hangs);
  backend_.script("good", timed(4000));
  const auto gym = connect();
  EvaluationRequest unwanted = request("hangs");
  const Ticket cancelled = submit(gym, unwanted);
  EXPECT_FALSE(gym->poll(0.1)) << "it has the lane";
  const Ticket good = submit(gym, request("good"));
  EXPECT_FALSE(gym->poll(0.1)) << "it is in the good one's way";
  unwanted.cancel.cancel();
  const auto first = next(gym);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->ticket, cancelled);
  EXPECT_EQ(first->verdict.error().code, ErrorCode::kCancelled);
  const auto second = next(gym);
  ASSERT_TRUE(second && second->verdict.ok());
  EXPECT_EQ(second->ticket, good);
}

TEST_F(GymTest, ALateRequestEndsWithATimeoutAndItsWorkIsKilled) {
  FakeKernel hangs = timed(1000);
  hangs.delay_seconds = 60;
  backend_.script("hangs", hangs);
  backend_.script("good", timed(4000));
  const auto gym = connect();
  EvaluationRequest late = request("hangs");
  late.deadline_seconds = 0.1;
  const Ticket timed_out = submit(gym, late), good = submit(gym, request("good"));
  std::map<Ticket, Result<Verdict>> verdicts;
  for (int i = 0; i < 2; ++i) {
    auto evaluated = next(gym);
    ASSERT_TRUE(evaluated);
    verdicts.emplace(evaluated->ticket, std::move(evaluated->verdict));
  }
  ASSERT_FALSE(verdicts.at(timed_out).ok());
  EXPECT_EQ(verdicts.at(timed_out).error().code, ErrorCode::kTimeout);
  ASSERT_TRUE(verdicts.at(good).ok());
  EXPECT_TRUE(verdicts.at(good)->passed());
}

TEST_F(GymTest, AnEvaluationThatTakesTooLongIsATimeout) {
  FakeKernel slow = timed(2000);
  slow.delay_seconds = 0.02;
  backend_.script("slow", slow);
  GymOptions given = options();
  given.screen_timeout_seconds = 0.1;
  const auto gym = connect(given);
  const auto screened = evaluate_alone(*gym.client, request("slow"));
  ASSERT_TRUE(screened.ok());
  EXPECT_EQ(screened->outcome, Outcome::kTimeout);
  EXPECT_EQ(screened->reason, "evaluation");
  EXPECT_TRUE(screened->speedups.empty());
  const auto verified = evaluate_alone(*gym.client, request("slow", Depth::kFinal));
  ASSERT_TRUE(verified.ok());
  EXPECT_TRUE(verified->passed()) << "a final may take longer";
}

TEST_F(GymTest, TheMostUrgentGoesFirst) {
  FakeKernel slow = timed(1000);
  slow.delay_seconds = 0.002;
  backend_.script("slow", slow);
  backend_.script("usual", timed(4000));
  backend_.script("urgent", timed(4000));
  GymOptions given = options();
  given.build_workers = 1;
  const auto gym = connect(given);
  submit(gym, request("slow"));
  for (int i = 0; i < 5; ++i) submit(gym, request("usual"));
  EvaluationRequest urgent = request("urgent");
  urgent.priority = 1;
  const Ticket wanted = submit(gym, urgent);
  std::vector<Ticket> order;
  while (gym->in_flight() > 0) order.push_back(next(gym)->ticket);
  EXPECT_LE(std::ranges::find(order, wanted) - order.begin(), 2);
}

TEST_F(GymTest, AClientWithTooManyUnfinishedRequestsIsToldToWait) {
  backend_.script("good", timed(4000));
  GymOptions given = options();
  given.requests_of_client = 2;
  const auto gym = connect(given);
  submit(gym, request("good"));
  submit(gym, request("good"));
  const auto refused = gym->submit(request("good"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
  const auto other = gym.gym->connect();
  EXPECT_TRUE(other->submit(request("good")).ok()) << "each client has room of its own";
  ASSERT_TRUE(next(gym));
  EXPECT_TRUE(gym->submit(request("good")).ok());
}

TEST_F(GymTest, ClientsGetTheirOwnVerdictsOnly) {
  backend_.script("fast", timed(1000));
  backend_.script("slow", timed(4000));
  const auto gym = connect();
  const auto other = gym.gym->connect();
  for (int i = 0; i < 5; ++i) {
    submit(gym, request("fast"));
    ASSERT_TRUE(other->submit(request("slow")).ok());
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(next(gym)->verdict->speedup("naive")->mid, 8, 0.2);
    EXPECT_NEAR(other->poll(60)->verdict->speedup("naive")->mid, 2, 0.1);
  }
}

TEST_F(GymTest, ManyTasksAreJudgedAtOnceEachOnItsOwnBaselines) {
  std::vector<std::shared_ptr<const TaskSpec>> tasks;
  for (const int n : {16, 32, 48}) {
    std::string text = kTwiceTask;
    text.replace(text.find("n = 16"), 6, "n = " + std::to_string(n));
    tasks.push_back(std::make_shared<const TaskSpec>(*parse_task(text, "twice.toml")));
  }
  backend_.script("good", timed(4000));
  const auto gym = connect();
  std::map<Ticket, Digest> wanted;
  for (int i = 0; i < 4; ++i)
    for (const auto& task : tasks) {
      EvaluationRequest one = request("good");
      one.task = task;
      wanted[submit(gym, one)] = task->digest;
    }
  while (gym->in_flight() > 0) {
    const auto evaluated = next(gym);
    ASSERT_TRUE(evaluated && evaluated->verdict.ok());
    EXPECT_EQ(evaluated->verdict->task, wanted.at(evaluated->ticket));
    EXPECT_TRUE(evaluated->verdict->passed());
  }
}

TEST_F(GymTest, TheFirstEvaluationOfATaskIsChargedWithItsPreparation) {
  backend_.script("good", timed(4000));
  const auto gym = connect();
  for (const bool is_first : {true, false}) {
    const auto verdict = evaluate_alone(*gym.client, request("good"));
    ASSERT_TRUE(verdict.ok());
    EXPECT_EQ(verdict->stage_seconds.contains("prepare"), is_first);
    EXPECT_GE(verdict->stage_seconds.at("queue"), 0);
  }
}

TEST_F(GymTest, ATaskThatMemoryHasNoRoomForIsPreparedAgain) {
  backend_.script("good", timed(4000));
  GymOptions given = options();
  given.task_memory_bytes = 1;
  const auto gym = connect(given);
  const auto other = std::make_shared<const TaskSpec>(*parse_task(
      std::string(kTwiceTask).replace(std::string(kTwiceTask).find("\"twice\""), 7, "\"thrice\""), "t.toml"));
  ASSERT_TRUE(gym->baselines(shared_twice_task(), {}).ok());
  const std::int64_t once = backend_.blocks_of("naive");
  ASSERT_TRUE(gym->baselines(shared_twice_task(), {}).ok());
  EXPECT_EQ(backend_.blocks_of("naive"), once) << "the last one used stays";
  ASSERT_TRUE(gym->baselines(other, {}).ok());
  const std::int64_t both = backend_.blocks_of("naive");
  ASSERT_TRUE(evaluate_alone(*gym.client, request("good")).ok());
  EXPECT_GT(backend_.blocks_of("naive"), both);
}

TEST_F(GymTest, IdleTasksMakeRoomOnTheDevice) {
  backend_.set_memory(100);
  const auto gym = connect(options());
  for (int i = 0; i < 40; ++i) {
    std::string text = kTwiceTask;
    text.replace(text.find("\"twice\""), 7, "\"twice_" + std::to_string(i) + "\"");
    const auto task = std::make_shared<const TaskSpec>(*parse_task(text, "t.toml"));
    const auto prepared = gym->baselines(task, {});
    ASSERT_TRUE(prepared.ok()) << i << ": " << prepared.error().message;
  }
}

/// A gym whose screens may be timed against "stand in", twenty times as fast as the naive build.
class StandInTest : public GymTest {
 protected:
  StandInTest() {
    backend_.script("stand in", timed(400));
    backend_.script("near", timed(6000));
    backend_.script("far", timed(300));
  }

  GymOptions with_stand_in() {
    GymOptions given = options();
    given.anchors = [](const TaskSpec&) { return std::vector<Candidate>{scripted("stand in")}; };
    return given;
  }

  /// Blocks of the stand-in that an evaluation takes.
  std::int64_t stand_in_blocks(const Connected& gym, const std::string& candidate, double speedup) {
    const std::int64_t before = backend_.blocks_of("stand in");
    const auto verdict = evaluate_alone(*gym.client, request(candidate));
    EXPECT_TRUE(verdict.ok() && verdict->passed());
    if (verdict.ok()) {
      EXPECT_NEAR(verdict->speedup("naive")->mid, speedup, 0.02 * speedup);
    }
    return backend_.blocks_of("stand in") - before;
  }
};

TEST_F(StandInTest, IsMadeReadyOnceAScreenNeedsIt) {
  const auto gym = connect(with_stand_in());
  ASSERT_TRUE(gym->baselines(shared_twice_task(), {}).ok());
  EXPECT_EQ(stand_in_blocks(gym, "near", 4.0 / 3), 0);
  const std::int64_t first = stand_in_blocks(gym, "far", 80.0 / 3);
  const std::int64_t second = stand_in_blocks(gym, "far", 80.0 / 3);
  EXPECT_GT(second, 0);
  EXPECT_GT(first, second) << "verified and tied once";
  EXPECT_EQ(stand_in_blocks(gym, "near", 4.0 / 3), 0);
}

TEST_F(StandInTest, ThatFailsIsLeftOut) {
  backend_.script("stand in", failing(BlockStatus::kCrash, "segfault"));
  RecordingSink events;
  const auto gym = Gym::start(backend_, with_stand_in(), events);
  const auto client = gym->connect();
  for (int i = 0; i < 2; ++i) {
    const auto verdict = evaluate_alone(*client, request("far"));
    ASSERT_TRUE(verdict.ok() && verdict->passed());
    EXPECT_NEAR(verdict->speedup("naive")->mid, 80.0 / 3, 0.3);
  }
  const auto told = events.events();
  EXPECT_EQ(std::ranges::count(told, "baseline.dropped", &Event::kind), 1);
}

TEST_F(StandInTest, IsMadeAgainWhereTheEvaluationThatMadeItWasCancelled) {
  FakeKernel hangs = timed(400);
  hangs.delay_seconds = 60;
  backend_.script("stand in", hangs);
  const auto gym = connect(with_stand_in());
  EvaluationRequest unwanted = request("far");
  ASSERT_TRUE(gym->baselines(shared_twice_task(), {}).ok());
  submit(gym, unwanted);
  EXPECT_FALSE(gym->poll(0.3)) << "the stand-in is in its way";
  unwanted.cancel.cancel();
  ASSERT_TRUE(next(gym));
  backend_.script("stand in", timed(400));
  EXPECT_GT(stand_in_blocks(gym, "far", 80.0 / 3), 0);
}

TEST_F(GymTest, TextThatNobodyCanReadGetsAVerdictBeforeItsTaskIsPrepared) {
  FakeKernel hangs = timed(8000);
  hangs.delay_seconds = 60;
  backend_.script("naive", hangs);
  const auto gym = connect();
  EvaluationRequest bad = request("good");
  bad.text = "/*lathe\n[[launch\n*/";
  const auto verdict = evaluate_alone(*gym.client, bad);
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->outcome, Outcome::kBuildFailed);
  EXPECT_EQ(verdict->reason, "bad_candidate");
  EXPECT_EQ(verdict->candidate, digest_of(bad.text));
  EXPECT_FALSE(verdict->detail.empty());
}

TEST_F(GymTest, AProfileFollowsAFinalThatPassed) {
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

TEST_F(GymTest, AProfileSaysWhichShareTheCandidatesOwnKernelsHave) {
  FakeKernel kernel = timed(2000);
  kernel.counters = {{"own_kernel_share", 0.25}};
  EXPECT_EQ(verdict_on(kernel, Depth::kProfile).profile.at("launched_share"), 0.25);
  kernel.counters = {{"dram_share", 0.8}};
  EXPECT_EQ(verdict_on(kernel, Depth::kProfile).profile.count("launched_share"), 0u);
}

TEST_F(GymTest, ADeviceWithoutCountersSaysSoAndPasses) {
  const Verdict verdict = verdict_on(timed(2000), Depth::kProfile);
  ASSERT_TRUE(verdict.passed());
  ASSERT_EQ(verdict.profiles.size(), 1u);
  EXPECT_TRUE(verdict.profiles[0].counters.empty());
  EXPECT_EQ(verdict.profiles[0].notes.size(), 1u);
}

TEST_F(GymTest, RequiresNarrowsTheDomainInsteadOfFailing) {
  FakeKernel kernel = timed(2000);
  kernel.wrong = "bound";
  kernel.wrong_rows = 15;  // would be wrong there, but says that it does not serve it
  EXPECT_TRUE(verdict_on(kernel, Depth::kFinal, "requires = \"n == 16\"").passed());
  const Verdict nowhere = verdict_on(timed(2000), Depth::kScreen, "requires = \"n == 17\"");
  EXPECT_EQ(nowhere.outcome, Outcome::kBuildFailed);
  EXPECT_EQ(nowhere.reason, "domain");
}

TEST_F(GymTest, ADomainThatHangsOnTheDeviceIsExaminedToo) {
  backend_.set_fact("threads", 2);
  FakeKernel kernel = timed(2000);
  kernel.wrong = "bound";
  kernel.wrong_rows = 40;
  const std::string domain = "requires = \"n == 16 || (n == 40 && threads == 2)\"";
  EXPECT_EQ(verdict_on(kernel, Depth::kVerify, domain).outcome, Outcome::kWrong);
  EXPECT_EQ(verdict_on(kernel, Depth::kVerify, "requires = \"n == 16 && threads == 2\"").unchecked,
            std::vector<std::string>{"hidden_shapes"});
}

TEST_F(GymTest, AScoredShapeThatIsNotCoveredCountsAsTheBestPeer) {
  std::string text = kTwiceTask;
  text.insert(text.find("n = 16 }") + 8, ", { name = \"large\", n = 48 }");
  auto task = parse_task(text, "twice.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  backend_.script("candidate", timed(2000));
  const auto gym = connect();
  EvaluationRequest half = request("candidate", Depth::kScreen, "requires = \"n <= 16\"");
  half.task = std::make_shared<const TaskSpec>(*std::move(task));
  const auto verdict = evaluate_alone(*gym.client, half);
  ASSERT_TRUE(verdict.ok() && verdict->passed());
  EXPECT_EQ(verdict->uncovered, std::vector<std::string>{"n=48"});
  EXPECT_NEAR(verdict->speedup("naive")->mid, 2, 0.01) << "4 at one shape, 1 at the other";
  EXPECT_NEAR(verdict->covered_speedup("naive")->mid, 4, 0.02);
}

TEST_F(GymTest, AKernelThatIsRightAtThePublishedShapeAloneIsWrong) {
  const auto wrong_at = [&](std::int64_t n, Depth depth) {
    FakeKernel kernel = timed(2000);
    kernel.wrong = "bound";
    kernel.wrong_rows = n;
    return verdict_on(kernel, depth).outcome == Outcome::kWrong;
  };
  int verified = 0, finals = 0;
  for (std::int64_t n = 1; n <= 64; ++n) {
    if (n == 16) continue;
    verified += wrong_at(n, Depth::kVerify);
    if (n % 4 == 2) finals += wrong_at(n, Depth::kFinal);
  }
  EXPECT_EQ(verified, 4) << "each of the hidden shapes, the one beyond the published among them";
  EXPECT_GE(finals, 3) << "of 16: others as well, and eight small ones";
}

TEST_F(GymTest, AFinalDrawsHiddenShapesAnew) {
  const Verdict first = verdict_on(timed(2000), Depth::kFinal);
  std::set<std::string> shapes;
  for (const CaseEvidence& one : first.evidence.cases) shapes.insert(one.shape);
  EXPECT_GT(shapes.size(), 4u);
}

TEST_F(GymTest, AFinalChecksALargeScoredShapeOnEveryDistribution) {
  const auto task = parse_task(R"toml(
name = "product"
dims = { n = [256, 256] }
tensor = [{ name = "a", shape = ["n", "n"] }, { name = "b", shape = ["n", "n"] }]
graph = "y = matmul(a, b)"
baselines = ["naive"]
shape = [{ name = "main", n = 256 }]
)toml",
                               "product.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  const auto gym = connect();
  const auto distributions = [&](Depth depth) {
    const std::string text =
        "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"a\", \"b\", \"y\", \"n\"]\n*/\n";
    const auto verdict = evaluate_alone(
        *gym.client,
        {.task = std::make_shared<const TaskSpec>(*task), .text = text, .name = "good", .depth = depth});
    std::set<std::string> met;
    if (!verdict.ok()) return met;
    for (const CaseEvidence& one : verdict->evidence.cases)
      if (!one.hidden || one.shape == "n=256") met.insert(one.distribution);
    return met;
  };
  backend_.script("good", timed(2000));
  EXPECT_LT(distributions(Depth::kVerify).size(), all_distributions().size());
  EXPECT_GE(distributions(Depth::kFinal).size(), all_distributions().size());
}

TEST_F(GymTest, NoTwoEvaluationsOfACandidateShareItsProcesses) {
  backend_.script("candidate", timed(2000));
  const auto gym = connect();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(evaluate_alone(*gym.client, request("candidate")).ok());
  const auto evaluations = backend_.evaluations_of("candidate");
  EXPECT_EQ(evaluations.size(), 2u);
  EXPECT_FALSE(evaluations.contains(0));
  EXPECT_EQ(backend_.evaluations_of("naive"), (std::set<std::uint64_t>{0}));
}

TEST_F(GymTest, ABadPlanIsABuildFailureThatNamesThePlace) {
  const auto gym = connect();
  EvaluationRequest bad = request("good");
  bad.text = "/*lathe\n[[launch]]\nkernel = \"f\"\nargs = [\"x\", \"z\"]\n*/\n";
  const auto verdict = evaluate_alone(*gym.client, bad);
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->outcome, Outcome::kBuildFailed);
  EXPECT_EQ(verdict->reason, "bad_plan");
}

TEST_F(GymTest, ANaiveBuildThatFailsIsAnErrorOfTheTaskUntilItIsMended) {
  FakeKernel broken;
  broken.wrong = "bound";
  backend_.script("naive", broken);
  backend_.script("good", timed(4000));
  const auto gym = connect();
  EXPECT_FALSE(gym->baselines(shared_twice_task(), {}).ok());
  const auto verdict = evaluate_alone(*gym.client, request("good"));
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().code, ErrorCode::kInvalid);
  backend_.script("naive", timed(8000, 0.002));
  EXPECT_TRUE(evaluate_alone(*gym.client, request("good")).ok());
}

/// A gym whose device another program holds.
class SharedGymTest : public testing::Test {
 protected:
  SharedGymTest() {
    std::string name = testing::TempDir() + "gym-locks-XXXXXX";
    locks_ = ::mkdtemp(name.data());
  }
  ~SharedGymTest() override { std::filesystem::remove_all(locks_); }

  static EvaluationRequest request() {
    return {.task = shared_twice_task(), .text = scripted("candidate").text, .name = "candidate"};
  }

  std::string locks_;
  RecordingSink events_;
};

TEST_F(SharedGymTest, WaitingForAnotherProgramIsNoPartOfAnEvaluationsTime) {
  FakeBackend backend(Seed::from_number(5), locks_);
  backend.script("naive", timed(8000));
  DeviceLane others(DeviceLane::Grain::kStage, "fake", locks_);
  const auto gym = Gym::start(backend, {.screen_timeout_seconds = 0.2}, events_);
  const auto client = gym->connect();
  ASSERT_TRUE(client->baselines(shared_twice_task(), {}).ok());
  auto lease = others.take(DeviceLane::Use::kTiming, DeviceLane::Grain::kStage);
  ASSERT_TRUE(client->submit(request()).ok());
  EXPECT_FALSE(client->poll(0.6).has_value());
  lease = {};
  const auto evaluated = client->poll(60);
  ASSERT_TRUE(evaluated && evaluated->verdict.ok());
  EXPECT_TRUE(evaluated->verdict->passed()) << evaluated->verdict->reason;
}

TEST_F(SharedGymTest, CancellingEndsTheWaitForAnotherProgram) {
  FakeBackend backend(Seed::from_number(5), locks_);
  DeviceLane others(DeviceLane::Grain::kStage, "fake", locks_);
  const auto lease = others.take(DeviceLane::Use::kTiming, DeviceLane::Grain::kStage);
  const CancelToken cancel;
  const auto gym = Gym::start(backend, {.cancel = cancel}, events_);
  const auto client = gym->connect();
  ASSERT_TRUE(client->submit(request()).ok());
  EXPECT_FALSE(client->poll(0.05).has_value());
  cancel.cancel();
  const auto evaluated = client->poll(60);
  ASSERT_TRUE(evaluated.has_value());
  EXPECT_EQ(evaluated->verdict.error().code, ErrorCode::kCancelled);
}  // and the gym's threads end

TEST_F(SharedGymTest, ADeviceThatCannotBeSharedIsSaidOnce) {
  FakeBackend backend(Seed::from_number(5), locks_ + "/missing");
  {
    const auto gym = Gym::start(backend, {}, events_);
    const auto client = gym->connect();
    EXPECT_TRUE(client->baselines(shared_twice_task(), {}).ok());
  }
  const auto events = events_.events();
  EXPECT_EQ(std::ranges::count(events, "lane.unshared", &Event::kind), 1);
}

}  // namespace
}  // namespace lathe
