#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/output.h"
#include "store/store.h"
#include "tests/cli/program.h"
#include "tests/model/byte_model.h"
#include "tests/policy/openai/scripted_server.h"

namespace lathe {
namespace {

constexpr double kLong = 240;
constexpr char kEngine[] = LATHE_BINARY_DIR "/../torch/bin/lathe-torch";
constexpr const char* kKey = "sk-this-is-a-secret-0123456789";

std::string kernel(const std::string& factor) {
  return "/*lathe\n[[launch]]\nkernel = \"twice\"\nitems = \"cdiv(n, 512)\"\nargs = [\"x\", \"y\", "
         "\"n\"]\n*/\n"
         "#include <lathe/cpu.h>\nextern \"C\" void twice(const float* x, float* y, int64_t n, int64_t "
         "begin, "
         "int64_t end) {\n  for (int64_t i = 512 * begin; i < lathe::min(512 * end, n); ++i) y[i] = " +
         factor + " * x[i];\n}\n";
}

class ModelTest : public ProgramTest {
 protected:
  ModelTest() { ::setenv("LATHE_API_KEY", kKey, 1); }
  ~ModelTest() override { ::unsetenv("LATHE_API_KEY"); }

  nlohmann::json document() const { return nlohmann::json::parse(*read_file(path("out.json"))); }

  /// Every byte that the programs left: store, blobs, reports, printed texts.
  void expect_no_key() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      if (entry.is_regular_file()) {
        const auto bytes = read_file(entry.path().string());
        ASSERT_TRUE(bytes.ok());
        EXPECT_EQ(bytes->find(kKey), std::string::npos) << entry.path();
      }
  }
};

TEST_F(ModelTest, AConversationEndsWithAKernelAndTheKeyIsNowhere) {
  // Wrong, then broken, then right; and the server says the key wherever it can.
  ScriptedServer server([&](const auto& request, const auto& connection) {
    if (request.number == 0)
      return void(connection.reply(500, std::string("{\"error\": {\"message\": \"") + kKey + "\"}}"));
    const bool told_broken = request.body.find("does not build") != std::string::npos;
    const bool told_wrong = request.body.find("results are wrong") != std::string::npos;
    const std::string code = told_broken ? kernel("2.0f") : told_wrong ? kernel("oops") : kernel("3.0f");
    connection.begin_stream();
    connection.event(chunk_json(std::string("Your key is ") + kKey + ".\n```cpp\n"));
    connection.event(chunk_json(code + "```\n", "stop"));
  });
  Program program(folder_, {"optimize",   "tiny.toml",  "--device", "cpu",      "--policy",       "openai",
                            "--endpoint", server.url(), "--model",  "scripted", "--turns",        "3",
                            "--branches", "1",          "--evals",  "3",        "--answer-price", "10",
                            "--json",     "out.json"});
  ASSERT_EQ(WEXITSTATUS(program.wait(kLong)), 0) << program.err();
  const nlohmann::json model = document()["model"];
  EXPECT_EQ(model["answers"], 3);
  EXPECT_EQ(model["built"], 2);
  EXPECT_EQ(model["correct"], 1);
  EXPECT_EQ(model["conversations"]["last_correct"], 1);
  EXPECT_GT(model["usd"], 0);
  const auto requests = server.requests();
  EXPECT_NE(requests.back().head.find(kKey), std::string::npos) << "the server must get the key";
  EXPECT_EQ(requests.back().body.find(kKey), std::string::npos);
  Program shown(folder_, {"runs", "show", "last"});
  EXPECT_EQ(WEXITSTATUS(shown.wait(kLong)), 0);
  expect_no_key();
}

TEST_F(ModelTest, WhyNoKernelPassedIsTold) {
  std::atomic<int> answers = 0;
  ScriptedServer server([&](const auto&, const auto& connection) {
    connection.begin_stream();
    connection.event(chunk_json(
        "```cpp\n" + kernel(++answers < 3 ? std::to_string(2 + answers) + ".0f" : "oops") + "```\n", "stop"));
  });
  Program program(folder_, {"optimize", "tiny.toml", "--device", "cpu", "--policy", "openai", "--endpoint",
                            server.url(), "--model", "scripted", "--search", "best-of-n", "--evals", "3"});
  EXPECT_EQ(WEXITSTATUS(program.wait(kLong)), 1) << program.err();
  EXPECT_NE(program.out().find("tiny: no kernel passed: 2 WRONG (bound), 1 BUILD_FAILED (compile_error)"),
            std::string::npos)
      << program.out();
}

TEST_F(ModelTest, AKilledRunGoesOnInTheMiddleOfATurn) {
  std::atomic<int> answers = 0;
  std::atomic<bool> hold = true;
  ScriptedServer server([&](const auto&, const auto& connection) {
    const int number = ++answers;
    connection.begin_stream();
    if (hold && number > 3) return void(connection.client_left(60'000));
    connection.event(chunk_json("```cpp\n" + kernel(std::to_string(number) + ".0f") + "```\n", "stop"));
  });
  {
    Program program(folder_,
                    {"optimize", "tiny.toml", "--device", "cpu", "--policy", "openai", "--endpoint",
                     server.url(), "--model", "scripted", "--turns", "2", "--branches", "2", "--evals", "4"});
    ASSERT_TRUE(eventually(kLong, [&] {
      if (!std::filesystem::exists(path(".lathe/lathe.db"))) return !program.running();
      const auto store = Store::open(path(".lathe"));
      const auto run = store.ok() ? (*store)->run("last") : Result<RunRecord>(Error{});
      return (run.ok() && run->experiences >= 3) || !program.running();
    }));
    ASSERT_TRUE(program.running()) << program.err();
    program.signal(SIGKILL);
    program.wait(kLong);
  }
  hold = false;
  Program program(folder_, {"optimize", "--resume", "last", "--json", "out.json"});
  const int code = WEXITSTATUS(program.wait(kLong));
  EXPECT_TRUE(code == 0 || code == 1) << program.err();
  EXPECT_EQ(document()["model"]["answers"], 4);
  EXPECT_EQ(document()["model"]["turns"][0]["answers"], 2);
  EXPECT_EQ(document()["model"]["turns"][1]["answers"], 2);
}

TEST_F(ModelTest, AnEndpointThatIsNotThereIsTold) {
  Program program(folder_, {"optimize", "tiny.toml", "--device", "cpu", "--policy", "openai", "--endpoint",
                            refusing_url(), "--model", "m"});
  EXPECT_EQ(WEXITSTATUS(program.wait(kLong)), 4);
  EXPECT_NE(program.err().find("nobody answers at http://127.0.0.1"), std::string::npos) << program.err();
  expect_no_key();
}

/// A model of random weights: the grammar alone makes schedules of what it writes.
TEST_F(ModelTest, ALocalModelWritesSchedulesUnderTheirGrammar) {
  if (!std::filesystem::exists(kEngine)) GTEST_SKIP() << "lathe-torch is not built";
  ASSERT_TRUE(write_output(path("bytes.gguf"), byte_model_gguf()).ok());
  Program program(folder_, {"optimize", "tiny.toml", "--device", "cpu", "--policy", "local", "--model",
                            "bytes.gguf", "--language", "schedule", "--strategy", "random", "--evals", "3",
                            "--engine-device", "cpu", "--json", "out.json"});
  ASSERT_EQ(WEXITSTATUS(program.wait(kLong)), 0) << program.err();
  const nlohmann::json model = document()["model"];
  EXPECT_GE(model["answers"], 3) << "schedules that were drawn again count too";
  EXPECT_EQ(model["correct"], model["answers"]);
  const auto store = Store::open(path(".lathe"));
  const auto experiences = (*store)->experiences((*store)->run("last")->id);
  ASSERT_TRUE(experiences.ok());
  const Generation& generation = *experiences->front().generation;
  EXPECT_EQ(experiences->front().lineage.policy, "local:bytes.gguf");
  const auto tokens = unpack<std::int32_t>((*store)->get_blob(generation.answer_tokens.digest).value());
  const auto log_probs =
      unpack<float>((*store)->get_blob(generation.answer_log_probabilities.digest).value());
  ASSERT_TRUE(tokens.ok() && log_probs.ok());
  EXPECT_EQ(tokens->size(), log_probs->size());
  EXPECT_EQ(tokens->back(), kByteModelVocab - 1);
}

TEST_F(ModelTest, AnEngineThatIsKilledIsStartedAgainAndTheRunGoesOn) {
  if (!std::filesystem::exists(kEngine)) GTEST_SKIP() << "lathe-torch is not built";
  ASSERT_TRUE(write_output(path("bytes.gguf"), byte_model_gguf()).ok());
  const std::string script = "#!/bin/sh\necho $$ >>" + path("started") + "\nexec " + kEngine + " \"$@\"\n";
  ASSERT_TRUE(write_output(path("engine"), script).ok());
  std::filesystem::permissions(path("engine"), std::filesystem::perms::owner_all);
  ::setenv("LATHE_ENGINE", path("engine").c_str(), 1);
  Program program(
      folder_, {"optimize",   "tiny.toml",  "--device",        "cpu",     "--policy", "local",      "--model",
                "bytes.gguf", "--language", "schedule",        "--turns", "1",        "--branches", "2",
                "--evals",    "2",          "--engine-device", "cpu",     "--json",   "out.json"});
  // The model is loaded before the task is prepared.
  ASSERT_TRUE(eventually(kLong, [&] { return program.err().find("preparing") != std::string::npos; }));
  ::kill(std::stoi(*read_file(path("started"))), SIGKILL);
  program.wait(kLong);
  ::unsetenv("LATHE_ENGINE");
  EXPECT_NE(program.err().find("started again"), std::string::npos) << program.err();
  EXPECT_GE(document()["model"]["answers"], 2) << program.err();
}

TEST_F(ModelTest, WhatALocalModelLacksIsTold) {
  ::setenv("LATHE_ENGINE", "/nowhere/lathe-torch", 1);
  Program without(folder_, {"optimize", "tiny.toml", "--device", "cpu", "--policy", "local", "--model", "x"});
  EXPECT_EQ(WEXITSTATUS(without.wait(kLong)), 3);
  EXPECT_NE(without.err().find("/nowhere/lathe-torch"), std::string::npos) << without.err();
  ::setenv("LATHE_ENGINE", "/bin/true", 1);
  Program missing(folder_, {"optimize", "tiny.toml", "--device", "cpu", "--policy", "local", "--model", "x"});
  EXPECT_EQ(WEXITSTATUS(missing.wait(kLong)), 3);
  EXPECT_NE(missing.err().find("fetch_models.sh"), std::string::npos) << missing.err();
  ::unsetenv("LATHE_ENGINE");
  Program unnamed(folder_, {"optimize", "tiny.toml", "--policy", "local"});
  EXPECT_EQ(WEXITSTATUS(unnamed.wait(kLong)), 2);
  EXPECT_NE(unnamed.err().find("--model"), std::string::npos);
}

TEST_F(ModelTest, AModelNeedsAnEndpoint) {
  Program program(folder_, {"optimize", "tiny.toml", "--policy", "openai"});
  EXPECT_EQ(WEXITSTATUS(program.wait(kLong)), 2);
  EXPECT_NE(program.err().find("--endpoint"), std::string::npos);
}

}  // namespace
}  // namespace lathe
