#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "base/random.h"
#include "lm/open_model.h"
#include "model/engine_client.h"
#include "tests/model/fixtures.h"

namespace lathe::lm {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHidden = 16, kHeads = 2, kDim = 8, kFfn = 24, kVocab = 257;
constexpr char kProgram[] = LATHE_BINARY_DIR "/bin/lathe-torch";

/// A Llama of one layer with random weights, whose tokens are the bytes and an end of text.
std::string tiny_gguf() {
  GgufWriter writer;
  writer.string("general.architecture", "llama");
  writer.number("llama.block_count", 1)
      .number("llama.context_length", 4096)
      .number("llama.embedding_length", kHidden);
  writer.number("llama.feed_forward_length", kFfn).number("llama.attention.head_count", kHeads);
  writer.number("llama.attention.head_count_kv", 1).real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.real("llama.rope.freq_base", 1e4F);
  std::vector<std::string> tokens;
  std::uint32_t beyond = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {  // GPT-2's characters for bytes
    const bool shows = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    const std::uint32_t character = shows ? byte : beyond++;
    tokens.push_back(character < 128 ? std::string(1, static_cast<char>(character))
                                     : std::string{static_cast<char>(0xC0 | (character >> 6)),
                                                   static_cast<char>(0x80 | (character & 63))});
  }
  tokens.push_back("<|end|>");
  std::vector<std::int32_t> types(256, 1);
  types.push_back(3);
  writer.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "qwen2");
  writer.strings("tokenizer.ggml.tokens", tokens).integers("tokenizer.ggml.token_type", types);
  writer.strings("tokenizer.ggml.merges", {}).number("tokenizer.ggml.eos_token_id", 256);
  Rng rng(Seed::from_number(1));
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(0.3 * rng.normal()));
    writer.tensor(name, shape, 0, bytes_of(values));
  };
  add("token_embd.weight", {kVocab, kHidden});
  add("output_norm.weight", {kHidden});
  add("blk.0.attn_norm.weight", {kHidden});
  add("blk.0.attn_q.weight", {kHeads * kDim, kHidden});
  add("blk.0.attn_k.weight", {kDim, kHidden});
  add("blk.0.attn_v.weight", {kDim, kHidden});
  add("blk.0.attn_output.weight", {kHidden, kHeads * kDim});
  add("blk.0.ffn_norm.weight", {kHidden});
  add("blk.0.ffn_gate.weight", {kFfn, kHidden});
  add("blk.0.ffn_up.weight", {kFfn, kHidden});
  add("blk.0.ffn_down.weight", {kHidden, kFfn});
  return writer.bytes();
}

class ClientTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Engine>> start(const std::string& program = kProgram) const {
    return start_engine(
        {.program = program, .arguments = {"--model", model_, "--device", "cpu", "--batch", "8"}});
  }
  const TemporaryFolder folder_;
  const std::string model_ = folder_.write("tiny.gguf", tiny_gguf());
};

TEST_F(ClientTest, AnotherProcessGivesTheSameAnswers) {
  const auto client = start();
  ASSERT_TRUE(client.ok()) << client.error().to_string();
  const auto here = open_model(model_, {.device = DeviceKind::kCpu, .max_batch = 8}).value();
  const EngineInfo& theirs = (*client)->info();
  EXPECT_EQ(theirs.weights, here.engine->info().weights);
  EXPECT_EQ(theirs.tokenizer, here.engine->info().tokenizer);
  EXPECT_NE(theirs.weights, Digest{});
  EXPECT_EQ(theirs.vocab, kVocab);
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
