#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "lm/open_model.h"
#include "model/engine_client.h"
#include "tests/model/byte_model.h"

namespace lathe::lm {
namespace {

using testing::HasSubstr;

constexpr char kProgram[] = LATHE_BINARY_DIR "/bin/lathe-torch";

class ClientTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Engine>> start(const std::string& program = kProgram) const {
    return start_engine(
        {.program = program, .arguments = {"--model", model_, "--device", "cpu", "--batch", "8"}});
  }
  const TemporaryFolder folder_;
  const std::string model_ = folder_.write("tiny.gguf", byte_model_gguf());
};

TEST_F(ClientTest, AnotherProcessGivesTheSameAnswers) {
  const auto client = start();
  ASSERT_TRUE(client.ok()) << client.error().to_string();
  const auto here = open_model(model_, {.device = DeviceKind::kCpu, .max_batch = 8}).value();
  const EngineInfo& theirs = (*client)->info();
  EXPECT_EQ(theirs.weights, here.engine->info().weights);
  EXPECT_EQ(theirs.tokenizer, here.engine->info().tokenizer);
  EXPECT_NE(theirs.weights, Digest{});
  EXPECT_EQ(theirs.vocab, kByteModelVocab);
  GenerationRequest request{.prompt = {65, 66, 67}, .samples = 12, .max_tokens = 40, .sampling = {.seed = 3}};
  request.stop_tokens.assign(20'000, {1, 2, 3, 4, 5, 6, 7, 8});  // longer than a frame
  const auto far = generate(**client, request).value(), near = generate(*here.engine, request).value();
  ASSERT_EQ(far.size(), 12u);
  for (std::size_t i = 0; i < far.size(); ++i) {
    EXPECT_EQ(far[i].tokens, near[i].tokens);
    EXPECT_EQ(far[i].log_probs, near[i].log_probs);
    EXPECT_EQ(far[i].finish, near[i].finish);
  }
}

TEST_F(ClientTest, WhatTheModelsFileLacksIsToldByTheClient) {
  const auto started =
      start_engine({.program = kProgram, .arguments = {"--model", "/nowhere.gguf", "--device", "cpu"}});
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.error().to_string(), HasSubstr("/nowhere.gguf"));
}

TEST_F(ClientTest, AKilledEngineEndsAllRequestsWithAnError) {
  const std::string script =
      folder_.write("killable", "#!/bin/sh\necho $$ >" + folder_.path() +
                                    "/pid\necho a last word >&2\nexec " + kProgram + " \"$@\"\n");
  ::chmod(script.c_str(), 0755);
  const auto client = start(script);
  ASSERT_TRUE(client.ok()) << client.error().to_string();
  const auto request =
      (*client)->submit({.prompt = {65}, .samples = 1000, .max_tokens = 4000, .ignore_end = true}).value();
  int pid = 0;
  std::ifstream(folder_.path() + "/pid") >> pid;
  ASSERT_GT(pid, 0);
  ::kill(pid, SIGKILL);
  for (;;) {
    const auto news = (*client)->wait(request, 60);
    if (news.ok()) continue;
    EXPECT_THAT(news.error().message, HasSubstr("Killed"));
    EXPECT_THAT(news.error().message, HasSubstr("a last word"));
    break;
  }
  EXPECT_FALSE((*client)->submit({.prompt = {65}}).ok());
}

TEST_F(ClientTest, ACancelledRequestEndsAndOthersGoOn) {
  const std::unique_ptr<Engine> client = start().value();
  const auto long_one =
      client->submit({.prompt = {65}, .samples = 1000, .max_tokens = 4000, .ignore_end = true}).value();
  client->cancel(long_one);
  EXPECT_EQ(client->wait(long_one, 1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(generate(*client, {.prompt = {66}, .max_tokens = 5}).value().size(), 1u);
}

}  // namespace
}  // namespace lathe::lm
