#include "backend/fake/fake_backend.h"

#include <gtest/gtest.h>

#include "tests/gym/fake_task.h"

namespace lathe {
namespace {

class FakeBackendTest : public testing::Test {
 protected:
  FakeBackendTest() : backend_(Seed::from_number(1)), task_(twice_task()) {
    Workload workload;
    workload.task = *lathe::bind(task_, task_.shapes[0].dims);
    workload.trials.resize(4);
    for (Trial& trial : workload.trials) trial.expected.resize(1);
    workload_ = *backend_.prepare(std::move(workload));
  }

  std::unique_ptr<Session> open(const std::string& name) {
    return *backend_.open(scripted(name), {}, workload_);
  }
  static BlockRequest calls(std::vector<int> trials) {
    BlockRequest request;
    request.trials = std::move(trials);
    return request;
  }

  FakeBackend backend_;
  TaskSpec task_;
  std::shared_ptr<const Workload> workload_;
};

TEST_F(FakeBackendTest, ABlockTakesItsCallsTime) {
  backend_.script("a", timed(250));
  const auto outcome = open("a")->run(calls({0, 2, 3}));
  EXPECT_EQ(outcome.status, BlockStatus::kOk);
  EXPECT_DOUBLE_EQ(outcome.wall_ns, 750);
  EXPECT_EQ(outcome.outputs.size(), 3u);
}

TEST_F(FakeBackendTest, SessionNoiseStaysWithItsSession) {
  backend_.script("a", timed(1000, 0, 0.1));
  const auto first = open("a"), second = open("a");
  EXPECT_DOUBLE_EQ(first->run(calls({0})).wall_ns, first->run(calls({1})).wall_ns);
  EXPECT_NE(first->run(calls({0})).wall_ns, second->run(calls({0})).wall_ns);
}

TEST_F(FakeBackendTest, AFaultSetsInAfterTheGoodBlocksOfAllSessions) {
  FakeKernel kernel;
  kernel.good_blocks = 1;
  kernel.fault.status = BlockStatus::kCrash;
  backend_.script("a", kernel);
  EXPECT_EQ(open("a")->run(calls({0})).status, BlockStatus::kOk);
  EXPECT_EQ(open("a")->run(calls({0})).status, BlockStatus::kCrash);
  EXPECT_EQ(open("b")->run(calls({0})).status, BlockStatus::kOk);
  EXPECT_EQ(backend_.blocks_of("a"), 2);
}

TEST_F(FakeBackendTest, BuildsAndOpensAsScripted) {
  FakeKernel kernel;
  kernel.build_fault = "compile_error";
  kernel.open_fault = "undefined_kernel";
  backend_.script("a", kernel);
  const auto built = backend_.build(scripted("a"), workload_->task);
  ASSERT_TRUE(built.ok());
  EXPECT_FALSE(built->ok);
  EXPECT_EQ(built->reason, "compile_error");
  const auto opened = backend_.open(scripted("a"), {}, workload_);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalid);
}

TEST(FakeBackend, RefusesAHostProgramAsABuildThatFailed) {
  FakeBackend backend(Seed::from_number(1));
  const auto program = parse_candidate(
      "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"ModelNew\"\n\"\"\"\n", "module.py");
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  const auto built = backend.build(*program, BoundTask{});
  ASSERT_TRUE(built.ok());
  EXPECT_FALSE(built->ok);
  EXPECT_EQ(built->reason, "host_program");
  EXPECT_EQ(built->outcome, Outcome::kBuildFailed);
  EXPECT_NE(built->facts.log.find("python"), std::string::npos);
}

}  // namespace
}  // namespace lathe
