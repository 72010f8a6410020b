#include "gym/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "tests/gym/fake_task.h"

namespace lathe {
namespace {

/// Runs a kernel on the fake device, and keeps what it was asked for.
class Recorder final : public Session {
 public:
  explicit Recorder(std::unique_ptr<Session> session) : session_(std::move(session)) {}
  BlockOutcome run(const BlockRequest& request) override {
    requests.push_back(request);
    return session_->run(request);
  }
  std::vector<BlockRequest> requests;

 private:
  std::unique_ptr<Session> session_;
};

struct Verified {
  Finding finding;
  Evidence evidence;
  std::vector<BlockRequest> requests;
};

Verified verify(const FakeKernel& kernel, std::uint64_t secret) {
  static const TaskSpec task = twice_task();
  FakeBackend backend(Seed::from_number(1));
  BenchShape shape;
  shape.task = *lathe::bind(task, task.shapes[0].dims);
  shape.verify = *make_verify_workload(backend, **make_reference(task), shape.task, Seed::from_number(2),
                                       Coverage::kEverything);
  backend.script("candidate", kernel);
  Recorder session(*backend.open(scripted("candidate"), {}, shape.verify));
  Verified result;
  result.finding = verify_shape(session, shape, Seed::from_number(secret), 10, result.evidence);
  result.requests = session.requests;
  return result;
}

TEST(VerifyShape, RunsEveryTrialTwiceAndOneAloneAndNoBlockButTheLastHasAll) {
  const std::size_t trials = all_distributions().size();
  const Verified done = verify(timed(1000), 3);
  ASSERT_TRUE(done.finding.passed());
  ASSERT_EQ(done.requests.size(), 4u);
  std::map<int, int> runs;
  for (const BlockRequest& request : done.requests)
    for (const int trial : request.trials) ++runs[trial];
  EXPECT_EQ(runs.size(), trials);
  for (const auto& [trial, count] : runs) EXPECT_EQ(count, 2) << trial;
  EXPECT_EQ(done.requests[0].trials.size(), 1u) << "as a long call is timed";
  EXPECT_LT(done.requests[1].trials.size(), trials);
  EXPECT_LT(done.requests[2].trials.size(), trials);
  EXPECT_NE(done.requests[0].poison, done.requests[1].poison);
  EXPECT_EQ(done.evidence.cases.size(), 2 * trials);
}

TEST(VerifyShape, DrawsTheOrderFromItsSecret) {
  EXPECT_NE(verify(timed(1000), 3).requests.back().trials, verify(timed(1000), 4).requests.back().trials);
}

TEST(VerifyShape, StopsAtTheFirstFailureAndSaysInWhichCase) {
  FakeKernel kernel;
  kernel.wrong = "tile_rms";
  const Verified wrong = verify(kernel, 3);
  EXPECT_EQ(wrong.finding.outcome, Outcome::kWrong);
  EXPECT_EQ(wrong.requests.size(), 1u);
  ASSERT_FALSE(wrong.evidence.cases.empty());
  EXPECT_FALSE(wrong.evidence.cases[0].pass);
  EXPECT_EQ(wrong.evidence.cases[0].reason, "tile_rms");
  EXPECT_NE(wrong.evidence.cases[0].distribution, "several");

  kernel = {};
  kernel.good_blocks = 1;
  kernel.fault.status = BlockStatus::kCrash;
  kernel.fault.reason = "segfault";
  const Verified crashed = verify(kernel, 3);
  EXPECT_EQ(crashed.finding.outcome, Outcome::kCrash);
  EXPECT_EQ(crashed.evidence.cases.back().reason, "segfault");
  EXPECT_FALSE(crashed.evidence.cases.back().pass);
}

TEST(JudgeOpen, ALibraryThatTheMachineLacksIsNoFailureOfTheMachine) {
  EXPECT_EQ(judge_open({ErrorCode::kUnavailable, "no cuDNN", {}, {}, "no_library"}).outcome,
            Outcome::kBuildFailed);
  EXPECT_EQ(judge_open({ErrorCode::kUnavailable, "no memory"}).outcome, Outcome::kInfra);
  EXPECT_EQ(judge_open({ErrorCode::kInvalid, "no kernel"}).reason, "invalid_plan");
}

TEST(JudgeBlock, SaysNothingOfWhereASecretPartLies) {
  static const TaskSpec task = twice_task();
  Workload workload;
  workload.task = *lathe::bind(task, task.shapes[0].dims);
  workload.trials.resize(1);
  workload.trials[0].expected.resize(1);
  BlockOutcome outcome;
  outcome.status = BlockStatus::kOk;
  outcome.outputs = {
      {{.pass = false, .reason = "bound", .worst_ratio = 3, .first_bad = 1234, .bad_count = 1}}};
  const std::vector<int> trials = {0};
  EXPECT_NE(judge_block(outcome, workload, trials).detail.find("1234"), std::string::npos);
  workload.trials[0].expected[0].known = {{5, 1, 0}};
  const Finding finding = judge_block(outcome, workload, trials);
  EXPECT_EQ(finding.reason, "bound");
  EXPECT_EQ(finding.detail.find("1234"), std::string::npos) << finding.detail;
}

TEST(JudgeBlock, NamesNoElementWhereTheErrorsOfAllAreTooLarge) {
  const TaskSpec task = twice_task();
  Workload workload;
  workload.task = *lathe::bind(task, task.shapes[0].dims);
  workload.trials.resize(1);
  workload.trials[0].expected.resize(1);
  BlockOutcome outcome;
  outcome.status = BlockStatus::kOk;
  outcome.outputs = {{{.pass = false, .reason = "rms", .worst_ratio = 0.5}}};
  const std::vector<int> trials = {0};
  const std::string detail = judge_block(outcome, workload, trials).detail;
  EXPECT_EQ(detail.find("flat index"), std::string::npos) << detail;
  EXPECT_NE(detail.find("0.5"), std::string::npos) << detail;
}

/// Of trials that expect one output.
Workload workload_of(const TaskSpec& task, std::size_t trials) {
  Workload workload;
  workload.task = *lathe::bind(task, task.shapes[0].dims);
  workload.trials.resize(trials);
  for (Trial& trial : workload.trials) trial.expected.resize(1);
  return workload;
}

TEST(JudgeBlock, LooksAtTheErrorsOfSmallOutputsTogether) {
  const TaskSpec task = twice_task();
  const Workload workload = workload_of(task, 4);
  BlockOutcome outcome;
  outcome.status = BlockStatus::kOk;
  const std::vector<int> trials = {0, 1, 2, 3};
  const auto judged = [&](double squares) {
    outcome.outputs.assign(4, {{.few = {.squares = squares, .allowed = 1, .count = 16}}});
    return judge_block(outcome, workload, trials);
  };
  EXPECT_TRUE(judged(0.9).passed());
  EXPECT_EQ(judged(1.1).outcome, Outcome::kWrong);
  EXPECT_EQ(judged(1.1).reason, "rms");
}

/// A call's values may be rounded in one way by chance; a kernel rounds all calls' alike.
TEST(JudgeBlock, LooksBehindTheRoundingsOfAllCallsTogether) {
  const TaskSpec task = twice_task();
  const Workload workload = workload_of(task, 2);
  BlockOutcome outcome;
  outcome.status = BlockStatus::kOk;
  const std::vector<int> trials = {0, 1};
  const auto judged = [&](const BeyondRounding& first, const BeyondRounding& second) {
    outcome.outputs = {{{.beyond = first}}, {{.beyond = second}}};
    return judge_block(outcome, workload, trials);
  };
  const BeyondRounding nearest{.to_nearest = true}, zero{.towards_zero = true};
  EXPECT_TRUE(judged(nearest, nearest).passed()) << "towards zero";
  EXPECT_TRUE(judged(zero, {}).passed());
  EXPECT_EQ(judged(zero, nearest).outcome, Outcome::kWrong);
  EXPECT_EQ(judged(zero, nearest).reason, "rms");
}

/// Where a call fills a block by itself.
TEST(BlockJudge, JudgesBlocksTogetherButNoCallTwice) {
  const TaskSpec task = twice_task();
  const Workload workload = workload_of(task, 4);
  BlockOutcome outcome;
  outcome.status = BlockStatus::kOk;
  const auto judge = [&](BlockJudge& of, int trial, const Comparison& comparison) {
    outcome.outputs = {{comparison}};
    return of.judge(outcome, std::vector<int>{trial});
  };
  const Comparison wrong{.few = {.squares = 1.1, .allowed = 1, .count = 16}};
  BlockJudge few(workload);
  for (const int trial : {0, 1, 0, 1, 2, 2}) EXPECT_TRUE(judge(few, trial, wrong).passed()) << "48 values";
  EXPECT_EQ(judge(few, 3, wrong).reason, "rms");
  BlockJudge later(workload);
  EXPECT_TRUE(judge(later, 0, {.few = {.squares = 0.1, .allowed = 1, .count = 64}}).passed());
  EXPECT_EQ(judge(later, 0, {.few = {.squares = 1.1, .allowed = 1, .count = 64}}).reason, "rms")
      << "in a block of inputs that were met";
  BlockJudge rounded(workload);
  EXPECT_TRUE(judge(rounded, 0, {.beyond = {.to_nearest = true}}).passed());
  EXPECT_TRUE(judge(rounded, 1, {}).passed());
  EXPECT_EQ(judge(rounded, 2, {.beyond = {.towards_zero = true}}).reason, "rms");
}

TEST(JudgeBlock, SaysNothingOfATimedCallThatACandidateCouldPutIntoIt) {
  Workload workload;
  BlockOutcome outcome{BlockStatus::kCrash, "oob_read", "read 3141592 bytes past the start of 'x'"};
  EXPECT_EQ(judge_block(outcome, workload, {}).detail, outcome.detail);
  workload.timed = true;
  EXPECT_EQ(judge_block(outcome, workload, {}).reason, "oob_read");
  EXPECT_EQ(judge_block(outcome, workload, {}).detail.find("3141592"), std::string::npos);
  outcome.status = BlockStatus::kInfra;
  EXPECT_EQ(judge_block(outcome, workload, {}).detail, outcome.detail);

  const TaskSpec task = twice_task();
  workload.task = *lathe::bind(task, task.shapes[0].dims);
  workload.trials.resize(1);
  workload.trials[0].expected.resize(1);
  outcome = {.status = BlockStatus::kOk};
  outcome.outputs = {{Comparison{.pass = false, .reason = "bound", .got = 3.14159}}};
  const std::vector<int> trials = {0};
  EXPECT_EQ(judge_block(outcome, workload, trials).detail.find("3.14"), std::string::npos);
  workload.timed = false;
  EXPECT_NE(judge_block(outcome, workload, trials).detail.find("3.14"), std::string::npos);
}

/// However slow its calls are: a value of a call says little of how exact it is.
TEST(TimingWorkload, HasTrialsEnoughForFewValuesToTell) {
  FakeBackend backend(Seed::from_number(1));
  const auto trials = [&](const std::string& inputs, const std::string& graph,
                          const WorkloadOptions& limits) {
    const auto task = parse_task("name = \"few\"\ndims = { n = [1, 8192] }\ntensor = [" + inputs +
                                     "]\ngraph = \"" + graph + "\"\nshape = [{ n = 8192 }]\n",
                                 "few.toml");
    EXPECT_TRUE(task.ok()) << task.error().to_string();
    const auto workload =
        make_timing_workload(backend, **make_reference(*task), *lathe::bind(*task, task->shapes[0].dims),
                             Seed::from_number(2), 2, limits);
    return (*workload)->trials.size();
  };
  const std::string narrow = "{ name = 'x', shape = ['n'], dtype = 'bf16' }";
  EXPECT_EQ(trials(narrow, "y = mean(x)", {}), 16u);
  EXPECT_EQ(trials(narrow, "y = mean(x)", {.max_bytes = 1}), 2u);
  EXPECT_EQ(trials("{ name = 'x', shape = ['n'] }", "y = mean(x)", {}), 2u) << "its bound is tight";
  EXPECT_EQ(
      trials("{ name = 'x', shape = [1, 'n'] }, { name = 'w', shape = ['n', 4] }", "y = matmul(x, w)", {}),
      4u)
      << "16 values";
  EXPECT_EQ(
      trials("{ name = 'x', shape = [1, 'n'] }, { name = 'w', shape = ['n', 64] }", "y = matmul(x, w)", {}),
      2u);
}

TEST(VerifyWorkload, ALargeShapeMeetsASecretOneOfTheOtherDistributions) {
  const TaskSpec task = twice_task();
  FakeBackend backend(Seed::from_number(1));
  const BoundTask bound = *lathe::bind(task, task.shapes[0].dims);
  const auto distributions = [&](Coverage coverage, std::uint64_t seed) {
    std::set<Distribution> drawn;
    const auto workload =
        make_verify_workload(backend, **make_reference(task), bound, Seed::from_number(seed), coverage);
    for (const Trial& trial : (*workload)->trials) drawn.insert(trial.distribution);
    return drawn;
  };
  const std::set<Distribution> others = distributions(Coverage::kOthers, 1);
  std::set<Distribution> met;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto telling = distributions(Coverage::kMostTelling, seed);
    EXPECT_LT(telling.size(), all_distributions().size());
    std::ranges::set_intersection(telling, others, std::inserter(met, met.end()));
  }
  EXPECT_EQ(met, others);
  std::set<Distribution> all = distributions(Coverage::kMostTelling, 1);
  all.insert(others.begin(), others.end());
  EXPECT_EQ(all, distributions(Coverage::kEverything, 1));
}

TEST(ShapeName, SaysSomethingWhereThereAreNoDims) {
  EXPECT_EQ(shape_name(twice_task().shapes[0].dims, twice_task()), "n=16");
  EXPECT_EQ(shape_name({}, TaskSpec{}), "its only shape");
}

TEST(NaiveBuild, AModuleThatFailsIsTheTasksFaultAndKeepsItsReason) {
  TaskSpec task = twice_task();
  task.reference = ReferenceKind::kProcess;
  const Finding written{Outcome::kTampered, "input_written", "it wrote to the input 'x'"};
  const Error error = naive_fails(task, written);
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_NE(error.message.find("input_written it wrote to the input 'x'"), std::string::npos)
      << error.message;
  EXPECT_NE(error.hint.find("clone()"), std::string::npos);
  EXPECT_EQ(naive_fails(task, {Outcome::kInfra, "runner_lost", ""}).code, ErrorCode::kUnavailable);
  EXPECT_EQ(naive_fails(twice_task(), written).code, ErrorCode::kInternal) << "Lathe wrote that one";
}

TEST(NaiveBuild, OfAGraphThatIsWrongTheTaskIsLookedAtFirst) {
  const Error error = naive_fails(twice_task(), {Outcome::kWrong, "exact", "got 127, want -129"});
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_NE(error.hint.find("lathe tasks lint"), std::string::npos);
}

TEST(CheckBounds, AGraphWhoseElementsMayBeAnythingIsRefused) {
  FakeBackend backend(Seed::from_number(1));
  const auto refused = [&](const std::string& graph) {
    const auto spec = parse_task(
        "name = \"t\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"n\"] }]\n"
        "graph = \"\"\"\n" +
            graph + "\n\"\"\"\nshape = [{ n = 32 }]\n",
        "t.toml");
    EXPECT_TRUE(spec.ok());
    const auto reference = make_reference(*spec);
    const auto bound = lathe::bind(*spec, spec->shapes[0].dims);
    const auto workload =
        make_verify_workload(backend, **reference, *bound, Seed::from_number(1), Coverage::kEverything);
    EXPECT_TRUE(workload.ok());
    return !check_bounds(**workload).ok();
  };
  EXPECT_FALSE(refused("y = softmax(x)"));
  EXPECT_TRUE(
      refused("e = softmax(x)\nm = reduce_max(e, axis = 1, keepdims = true)\ng = ge(e, m)\n"
              "z = full(shape = [1], value = 0)\nf = where(g, e, z)\n"
              "t = sum(f, axis = 1, keepdims = true)\ny = div(f, t)"));
}

}  // namespace
}  // namespace lathe
