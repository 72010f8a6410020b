#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/random.h"
#include "tests/cli/program.h"
#include "tests/record/json_lines.h"
#include "tests/rl/table_text.h"

// `lathe train` on a table that is killed at any moments: what it leaves is what an undisturbed run
// leaves.
namespace lathe {
namespace {

constexpr int kKills = 10;

/// Whatever has a state is on.
constexpr const char* kRecipe = R"toml(
[rl]
steps = 200
prompts = 6
samples = 8
turns = 2
exemplars = 2
smoothing_window = 200
curriculum = "pass_rate"
[loss]
kl = 0.02
entropy = 0.01
updates = 2
[optimizer]
learning_rate = 5e-3
schedule = "cosine"
warmup = 10
[imitation]
steps = 10
[exam]
samples = 8
[output]
checkpoint_every = 3
)toml";

class KillAndResumeTest : public ProgramTest {
 protected:
  KillAndResumeTest() {
    write("rl.toml", kRecipe);
    write("table.jsonl", rl::made_up_table_text(8));
  }

  std::vector<std::string> training(const std::string& out, bool resume) const {
    std::vector<std::string> args = {"train", "rl.toml", "--table", "table.jsonl", "--out", out};
    if (resume) args.push_back("--resume");
    return args;
  }

  void end_of(const std::string& out, bool resume) {
    Program program(folder_, training(out, resume));
    const int status = program.wait(120);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << program.err();
  }

  /// Steps that a killed run would go on from.
  std::int64_t steps_saved(const std::string& out) const {
    const auto text = read_file(path(out + "/checkpoint.json"));
    return text.ok() ? nlohmann::json::parse(*text).at("steps_done").get<std::int64_t>() : 0;
  }

  std::string file(const std::string& name) const {
    const auto text = read_file(path(name));
    return text.ok() ? *text : "there is none";
  }

  /// Seconds differ from run to run.
  std::vector<nlohmann::json> metrics(const std::string& out) const {
    auto lines = json_lines_of(path(out + "/metrics.jsonl"));
    for (auto& line : lines)
      for (const char* key : {"seconds", "rollout_seconds", "judging_seconds", "update_seconds"})
        line.erase(key);
    return lines;
  }
};

TEST_F(KillAndResumeTest, GivesTheWeightsAndSamplesOfAnUndisturbedRun) {
  end_of("whole", false);
  Rng rng(Seed::from_number(1));
  int in_the_midst = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const std::int64_t before = steps_saved("killed");
    const auto goal = before + static_cast<std::int64_t>(rng.below(10));
    const auto late = std::chrono::microseconds(rng.below(20'000));
    Program program(folder_, training("killed", true));
    while (program.running() && steps_saved("killed") < goal)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(late);
    ASSERT_TRUE(program.running()) << "it ended too soon: " << program.err();
    program.signal(SIGKILL);
    ASSERT_TRUE(WIFSIGNALED(program.wait(10)));
    if (steps_saved("killed") > before) ++in_the_midst;
  }
  EXPECT_GE(in_the_midst, kKills / 2);
  EXPECT_LT(steps_saved("killed"), 200);
  end_of("killed", true);
  for (const char* name : {"weights.json", "samples.jsonl", "exam.jsonl", "table.md"})
    EXPECT_EQ(file(std::string("killed/") + name), file(std::string("whole/") + name)) << name;
  EXPECT_EQ(metrics("killed"), metrics("whole"));
  EXPECT_EQ(metrics("whole").size(), 200U);
}

}  // namespace
}  // namespace lathe
