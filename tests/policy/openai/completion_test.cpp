#include "policy/openai/completion.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/policy/openai/scripted_server.h"

namespace lathe::openai {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

std::vector<std::string> events_of(const std::vector<std::string>& pieces) {
  std::vector<std::string> events;
  SseReader reader([&](std::string_view data) -> Status {
    events.emplace_back(data);
    return Ok{};
  });
  for (const std::string& piece : pieces) EXPECT_TRUE(reader.read(piece).ok());
  EXPECT_TRUE(reader.finish().ok());
  return events;
}

TEST(Sse, SplitsAStreamWhereverItIsCut) {
  const std::string stream = ": hello\n\ndata: one\n\nevent: x\r\ndata:two\r\ndata: three\r\n\r\ndata: four";
  for (std::size_t cut = 0; cut <= stream.size(); ++cut)
    EXPECT_THAT(events_of({stream.substr(0, cut), stream.substr(cut)}),
                ElementsAre("one", "two\nthree", "four"))
        << cut;
}

TEST(Sse, AnEventThatNeverEndsIsAnError) {
  SseReader reader([](std::string_view) -> Status { return Ok{}; });
  Status status = reader.read("data: ");
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 8 && status.ok(); ++i) status = reader.read(piece);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
}

Result<Completion> whole(const std::string& body, int samples = 1) {
  CompletionReader reader(samples);
  if (const Status status = reader.read_whole(body); !status.ok()) return status.error();
  return reader.take();
}

TEST(Completion, ReadsTextUsageTokensAndLogProbabilities) {
  const auto read = whole(R"({"model": "m", "system_fingerprint": "f", "choices": [{"index": 0,
      "finish_reason": "stop", "message": {"content": "Hi"}, "logprobs": {"content": [
        {"token": "H", "id": 7, "logprob": -0.5}, {"token": "i", "id": 9, "logprob": -2}]}}],
      "usage": {"prompt_tokens": 11, "completion_tokens": 2}})");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->model, "m (f)");
  EXPECT_EQ(read->prompt_tokens, 11);
  EXPECT_EQ(read->answer_tokens, 2);
  ASSERT_EQ(read->choices.size(), 1u);
  EXPECT_EQ(read->choices[0].text, "Hi");
  EXPECT_TRUE(read->choices[0].complete());
  EXPECT_THAT(read->choices[0].tokens, ElementsAre(7, 9));
  EXPECT_THAT(read->choices[0].log_probabilities, ElementsAre(FloatEq(-0.5f), FloatEq(-2)));
}

TEST(Completion, TokensWithoutIdsLeaveLogProbabilitiesAlone) {
  const auto read = whole(R"({"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "ab"},
      "logprobs": {"content": [{"token": "a", "id": 7, "logprob": -1}, {"token": "b", "logprob": -1}]}}]})");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->choices[0].tokens.empty());
  EXPECT_EQ(read->choices[0].log_probabilities.size(), 2u);
}

TEST(Completion, JoinsAStreamOfSeveralSamplesAndTheirThoughts) {
  CompletionReader reader(2);
  for (const std::string& data :
       {chunk_json("A", "", 1), chunk_json("x"), chunk_json("B", "length", 1), chunk_json("y", "stop"),
        std::string(R"({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]})"),
        std::string(R"({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})"),
        std::string("[DONE]"), std::string("no JSON, but nobody reads it")})
    ASSERT_TRUE(reader.read_stream("data: " + data + "\n\n").ok());
  ASSERT_TRUE(reader.finish_stream().ok());
  const Completion completion = reader.take();
  ASSERT_EQ(completion.choices.size(), 2u);
  EXPECT_EQ(completion.choices[0].text, "<think>hm</think>\nxy");
  EXPECT_EQ(completion.choices[1].text, "AB");
  EXPECT_EQ(completion.choices[1].finish_reason, "length");
  EXPECT_EQ(completion.answer_tokens, 4);
}

TEST(Completion, WhatIsNoCompletionIsAnError) {
  const std::vector<std::string> bodies = {
      "",
      "<html>502</html>",
      "[]",
      "{}",
      R"({"choices": 7})",
      R"({"choices": [7]})",
      R"({"choices": [{"index": 0, "message": {"content": 7}}]})",
      R"({"choices": [{"index": 5, "message": {"content": "x"}}]})",
      R"({"choices": [{"index": 0, "message": {"content": "x"}, "logprobs": {"content": [{}]}}]})",
      std::string(100'000, '['),
      R"({"choices": [)" + std::string(1000, '{')};
  for (const std::string& body : bodies) {
    const auto read = whole(body);
    ASSERT_FALSE(read.ok()) << body.substr(0, 80);
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt) << body.substr(0, 80);
  }
}

TEST(Completion, AnErrorInsideAReplyIsToldInOneLine) {
  const auto read = whole(R"({"error": {"message": "out of\nmemory"}})");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message, HasSubstr("out of"));
  EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
}

TEST(Completion, AnEndlessAnswerIsAnError) {
  CompletionReader reader(1);
  const std::string event = "data: " + chunk_json(std::string(1 << 20, 'x')) + "\n\n";
  Status status = Ok{};
  for (int i = 0; i < 8 && status.ok(); ++i) status = reader.read_stream(event);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("longer than 4 MiB"));
}

TEST(Dialect, GivesUpWhatAServerRefusesByName) {
  Dialect dialect;
  EXPECT_TRUE(dialect.give_up("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."));
  EXPECT_TRUE(dialect.give_up("logprobs are not supported"));
  EXPECT_FALSE(dialect.give_up("logprobs are not supported")) << "it is not asked for any more";
  EXPECT_TRUE(dialect.give_up("Only one completion choice is allowed"));
  EXPECT_FALSE(dialect.give_up("the prompt is too long"));
  const auto body = nlohmann::json::parse(
      request_body({.model = "m", .messages = {{"user", "x"}}, .samples = 3, .max_tokens = 9}, dialect));
  EXPECT_EQ(body["max_completion_tokens"], 9);
  EXPECT_FALSE(body.contains("max_tokens"));
  EXPECT_FALSE(body.contains("logprobs"));
}

TEST(Models, AreNamed) {
  EXPECT_THAT(model_names(R"({"data": [{"id": "a"}, {"id": 7}, {}, {"id": "b"}]})"), ElementsAre("a", "b"));
  EXPECT_TRUE(model_names("nonsense").empty());
}

}  // namespace
}  // namespace lathe::openai
