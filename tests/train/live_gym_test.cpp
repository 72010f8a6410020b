#include <gmock/gmock.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "tests/cli/program.h"
#include "tests/model/byte_model.h"
#include "tests/record/json_lines.h"

// `lathe train` of a model that writes kernels, and the `lathe serve` on a processor that judges
// them.
namespace lathe {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kRecipe = R"toml(
[rl]
steps = 4
prompts = 2
samples = 4
reward = "correct"
[model]
answers_at_once = 8
[kernels]
answer_tokens = 3
prompt_tokens = 14000
[optimizer]
learning_rate = 1e-3
[output]
checkpoint_every = 1
)toml";

/// Tokens that are whole answers: right ones, and by turns those that do something else in place of
/// the sum.
std::vector<std::string> answers(const std::string& otherwise = "y[i] = x[i]") {
  constexpr std::string_view kSum = "y[i] = x[i] + x[i]";
  std::string right = kTinyKernel, wrong = kTinyKernel;
  wrong.replace(wrong.find(kSum), kSum.size(), otherwise);
  std::vector<std::string> words;
  for (int i = 0; i < 4; ++i)
    for (const std::string& kernel : {right, wrong})
      words.push_back("```cpp\n" + kernel.substr(0, kernel.rfind('}')) + "  // " + std::to_string(i) +
                      "\n}\n```");
  return words;
}

class LiveGymProgramTest : public ProgramTest {
 protected:
  LiveGymProgramTest() {
    write("bytes.gguf", byte_model_gguf(answers(), 16384));
    write("rl.toml", kRecipe);
    std::filesystem::create_directories(path("tasks"));
    for (const char* const n : {"2048", "1024"}) {
      std::string task = kTinyTask;
      task.replace(task.find("n = 2048"), 8, std::string("n = ") + n);
      task.replace(task.find("\"tiny\""), 6, std::string("\"tiny_") + n + "\"");
      write(std::string("tasks/") + n + ".toml", task);
    }
  }

  void start_service() {
    service_ = std::make_unique<Program>(folder_, std::vector<std::string>{"serve", "--port", "0", "--device",
                                                                           "cpu", "--store", path("served")});
    ASSERT_TRUE(eventually(
        60, [&] { return service_->out().find('\n') != std::string::npos || !service_->running(); }));
    const std::string out = service_->out();
    ASSERT_NE(out.rfind(':'), std::string::npos) << service_->err();
    url_ = "http://127.0.0.1:" + std::to_string(std::atoi(out.c_str() + out.rfind(':') + 1));
  }
  std::unique_ptr<Program> train(const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"train",     "rl.toml", "--model", "bytes.gguf", "--gym",
                                     url_,        "--tasks", "tasks",   "--device",   "cpu",
                                     "--threads", "1",       "--out",   out};
    args.insert(args.end(), more.begin(), more.end());
    return std::make_unique<Program>(folder_, args);
  }

  std::string url_;
  std::unique_ptr<Program> service_;
};

TEST_F(LiveGymProgramTest, LearnsFromVerdictsAndGoesOnAfterCtrlCAsIfItHadNot) {
  start_service();
  const auto whole = train("whole");
  ASSERT_EQ(whole->wait(300), 0) << whole->err() << service_->err();
  EXPECT_THAT(whole->out(), HasSubstr("whole/model"));
  const auto steps = json_lines_of(path("whole/metrics.jsonl"));
  ASSERT_THAT(steps, SizeIs(4));
  std::map<std::string, int> outcomes;
  for (const json& step : steps) {
    EXPECT_LT(step["mismatch"].get<double>(), 1e-4) << step;
    EXPECT_GT(step["judging_seconds"].get<double>(), 0) << step;
    EXPECT_EQ(step["lost"], 0) << step;
    for (const auto& [outcome, count] : step["outcomes"].items()) outcomes[outcome] += count.get<int>();
  }
  EXPECT_GT(outcomes["PASS"], 0);
  EXPECT_GT(outcomes["WRONG"], 0);
  for (const json& sample : json_lines_of(path("whole/samples.jsonl")))
    EXPECT_EQ(sample["reward"], sample["outcome"] == "PASS" ? 1 : 0) << sample;

  const auto first = train("parts");
  ASSERT_TRUE(eventually(200, [&] { return first->err().find("step 1/4") != std::string::npos; }));
  first->signal(SIGINT);
  ASSERT_EQ(WEXITSTATUS(first->wait(100)), 130) << first->err();
  const auto second = train("parts", {"--resume"});
  ASSERT_EQ(second->wait(200), 0) << second->err();
  EXPECT_EQ(*read_file(path("parts/model/model.safetensors")),
            *read_file(path("whole/model/model.safetensors")));
}

/// A kernel that writes nothing finds the reference's answer where it should have written.
TEST_F(LiveGymProgramTest, ANaiveGraderPaysForWhatTheGymRefuses) {
  write("bytes.gguf", byte_model_gguf(answers("(void)y"), 16384));
  std::string recipe = kRecipe;
  write("rl.toml", recipe.replace(recipe.find("[kernels]"), 9, "[kernels]\nnaive = \"pays\""));
  start_service();
  const auto whole = train("whole");
  ASSERT_EQ(whole->wait(300), 0) << whole->err() << service_->err();
  std::int64_t deceived = 0;
  for (const json& step : json_lines_of(path("whole/metrics.jsonl")))
    deceived += step["naive_deceived"].get<std::int64_t>();
  std::int64_t counted = 0;
  for (const json& sample : json_lines_of(path("whole/samples.jsonl"))) {
    const bool accepted = sample["naive_speedup"].get<double>() > 0;
    EXPECT_EQ(sample["reward"], accepted ? 1 : 0) << sample;
    EXPECT_EQ(accepted, sample["outcome"] == "PASS" || sample["outcome"] == "WRONG") << sample;
    counted += accepted && sample["outcome"] != "PASS";
  }
  EXPECT_GT(deceived, 0);
  EXPECT_EQ(deceived, counted);
}

TEST_F(LiveGymProgramTest, SaysWhatAGymOfKernelsNeeds) {
  Program no_gym(folder_, {"train", "rl.toml", "--model", "bytes.gguf", "--device", "cpu", "--out", "out"});
  EXPECT_NE(no_gym.wait(60), 0);
  EXPECT_THAT(no_gym.err(), HasSubstr("--gym"));
}

}  // namespace
}  // namespace lathe
