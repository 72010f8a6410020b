#include "policy/openai/endpoint.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "tests/policy/openai/scripted_server.h"

namespace lathe::openai {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kKey = "sk-0123456789abcdef";

class EndpointTest : public testing::Test {
 protected:
  void serve(ScriptedServer::Handler handler) {
    server_ = std::make_unique<ScriptedServer>(std::move(handler));
    options_.url = server_->url();
  }
  Result<Completion> complete(const CompletionRequest& request = {.model = "m",
                                                                  .messages = {{"user", "x"}}}) {
    Endpoint endpoint(options_, events_);
    Rng rng(Seed::from_number(1));
    return endpoint.complete(request, cancel_, rng);
  }
  Error error_of(int status, const std::string& body) {
    serve([=](const auto&, const auto& connection) { connection.reply(status, body); });
    auto result = complete();
    EXPECT_FALSE(result.ok());
    return result.ok() ? Error{} : result.error();
  }
  std::size_t asked() const { return server_->requests().size(); }

  static EndpointOptions quick() {
    EndpointOptions options;
    options.key = kKey;
    options.max_retries = 3;
    options.first_wait_seconds = 0.01;
    return options;
  }
  EndpointOptions options_ = quick();
  RecordingSink events_;
  CancelToken cancel_;
  std::unique_ptr<ScriptedServer> server_;
};

TEST_F(EndpointTest, StreamsAnAnswer) {
  serve([](const auto&, const auto& connection) {
    connection.begin_stream();
    connection.event(chunk_json("Hel"));
    connection.event(chunk_json("lo", "stop"));
    connection.event("[DONE]");
  });
  const auto completion = complete();
  ASSERT_TRUE(completion.ok()) << completion.error().to_string();
  EXPECT_EQ(completion->choices.at(0).text, "Hello");
  const auto request = server_->requests().at(0);
  EXPECT_TRUE(request.asks_for("/v1/chat/completions"));
  EXPECT_THAT(request.head, HasSubstr(std::string("Authorization: Bearer ") + kKey));
  EXPECT_EQ(nlohmann::json::parse(request.body)["stream"], true);
}

TEST_F(EndpointTest, TakesAWholeReply) {
  serve([](const auto&, const auto& connection) { connection.reply(200, completion_json({"a", "b"})); });
  CompletionRequest request{.model = "m", .messages = {{"user", "x"}}, .samples = 2};
  request.stream = false;
  const auto completion = complete(request);
  ASSERT_TRUE(completion.ok()) << completion.error().to_string();
  EXPECT_EQ(completion->choices.size(), 2u);
}

TEST_F(EndpointTest, AnUnknownKeyIsToldOnceAndNeverShown) {
  const Error error = error_of(401, std::string(R"({"error": {"message": "no such key: )") + kKey + "\"}}");
  EXPECT_EQ(asked(), 1u) << "it would stay wrong";
  EXPECT_THAT(error.message, HasSubstr("401"));
  EXPECT_THAT(error.message, HasSubstr("no such key: [key]"));
  EXPECT_THAT(error.to_string(), Not(HasSubstr(kKey)));
  EXPECT_THAT(error.hint, HasSubstr("key"));
}

TEST_F(EndpointTest, AKeyThatAServerPutsIntoItsAnswerIsBlottedOut) {
  serve([](const auto&, const auto& connection) {
    connection.begin_stream();
    connection.event(chunk_json("sk-01234567"));
    connection.event(chunk_json("89abcdef", "stop"));
  });
  EXPECT_EQ(complete()->choices.at(0).text, "[key]");
}

TEST_F(EndpointTest, AnUnknownModelNamesThoseThatThereAre) {
  serve([](const auto& request, const auto& connection) {
    if (request.asks_for("/v1/models"))
      connection.reply(200, R"({"data": [{"id": "big"}, {"id": "small"}]})");
    else
      connection.reply(404, R"({"error": "no model m"})");
  });
  const auto completion = complete();
  ASSERT_FALSE(completion.ok());
  EXPECT_EQ(completion.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(completion.error().message, HasSubstr("'m'"));
  EXPECT_THAT(completion.error().hint, HasSubstr("big, small"));
}

TEST_F(EndpointTest, AsksAgainAfterFaultsThatPass) {
  serve([](const auto& request, const auto& connection) {
    if (request.number == 0) return void(connection.reply(500, "oops"));
    if (request.number == 1) return void(connection.reply(503, R"({"error": {"message": "loading"}})"));
    if (request.number == 2) return;  // hangs up
    connection.reply(200, "data: " + chunk_json("ok", "stop") + "\n\n");
  });
  const auto completion = complete();
  ASSERT_TRUE(completion.ok()) << completion.error().to_string();
  EXPECT_EQ(asked(), 4u);
  EXPECT_THAT(events_.events().at(1).text, HasSubstr("loading"));
}

TEST_F(EndpointTest, GivesUpAfterSoManyRetries) {
  const Error error = error_of(500, R"({"error": {"message": "out of memory"}})");
  EXPECT_EQ(asked(), 4u);
  EXPECT_THAT(error.message, HasSubstr("500: out of memory"));
}

TEST_F(EndpointTest, WaitsAsLongAsTheServerAsks) {
  serve([](const auto& request, const auto& connection) {
    if (request.number == 0) return void(connection.reply(429, "slow down", "Retry-After: 1\r\n"));
    connection.reply(200, "data: " + chunk_json("ok", "stop") + "\n\n");
  });
  const std::int64_t begin_ns = steady_clock().now_ns();
  ASSERT_TRUE(complete().ok());
  EXPECT_GE(seconds_since(begin_ns), 1.0);
}

TEST_F(EndpointTest, ALongWaitIsAnErrorThatSaysHowLong) {
  serve(
      [](const auto&, const auto& connection) { connection.reply(429, "quota", "Retry-After: 86400\r\n"); });
  const auto completion = complete();
  ASSERT_FALSE(completion.ok());
  EXPECT_EQ(asked(), 1u);
  EXPECT_THAT(completion.error().message, HasSubstr("86400 s"));
}

TEST_F(EndpointTest, ACutStreamIsAskedForAgain) {
  serve([](const auto& request, const auto& connection) {
    connection.begin_stream();
    connection.event(chunk_json("half"));
    if (request.number > 0) connection.event(chunk_json(" whole", "stop"));
  });
  const auto completion = complete();
  ASSERT_TRUE(completion.ok()) << completion.error().to_string();
  EXPECT_EQ(completion->choices.at(0).text, "half whole");
  EXPECT_EQ(asked(), 2u);
}

TEST_F(EndpointTest, OfSeveralSamplesTheCompleteOnesAreKept) {
  serve([](const auto&, const auto& connection) {
    connection.begin_stream();
    connection.event(chunk_json("cut", "", 0));
    connection.event(chunk_json("done", "stop", 1));
  });
  const auto completion = complete({.model = "m", .messages = {{"user", "x"}}, .samples = 2});
  ASSERT_TRUE(completion.ok());
  ASSERT_EQ(completion->choices.size(), 1u);
  EXPECT_EQ(completion->choices[0].text, "done");
}

TEST_F(EndpointTest, AlwaysCutIsAnError) {
  serve([](const auto&, const auto& connection) {
    connection.begin_stream();
    connection.event(chunk_json("half"));
  });
  const auto completion = complete();
  ASSERT_FALSE(completion.ok());
  EXPECT_THAT(completion.error().message, HasSubstr("in the middle"));
}

TEST_F(EndpointTest, AMegabyteLineEndsTheRequestEarly) {
  options_.max_retries = 0;
  bool all_sent = true;
  serve([&](const auto&, const auto& connection) {
    connection.begin_stream();
    connection.send("data: ");
    const std::string piece(1 << 20, 'x');
    for (int i = 0; i < 64 && all_sent; ++i) all_sent = connection.send(piece);
  });
  const auto completion = complete();
  server_.reset();
  ASSERT_FALSE(completion.ok());
  EXPECT_EQ(completion.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(all_sent) << "the client must hang up";
}

TEST_F(EndpointTest, WhatIsNoJsonIsAnErrorWithItsBeginning) {
  options_.max_retries = 0;
  const Error error = error_of(200, "data: <html>welcome</html>\n\n");
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("<html>welcome"));
  EXPECT_THAT(error.hint, HasSubstr("/v1"));
}

TEST_F(EndpointTest, AWebPageIsToldAtOnce) {
  for (const bool stream : {true, false}) {
    serve([](const auto&, const auto& connection) {
      connection.reply(200, "\n<!DOCTYPE html><html>log in</html>");
    });
    const auto completion = complete({.model = "m", .messages = {{"user", "x"}}, .stream = stream});
    ASSERT_FALSE(completion.ok());
    EXPECT_EQ(completion.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(completion.error().message, HasSubstr("a web page"));
    EXPECT_THAT(completion.error().hint, HasSubstr("/v1"));
    EXPECT_EQ(asked(), 1u) << "it will not change";
  }
}

TEST_F(EndpointTest, NobodyThereIsToldAtOnce) {
  options_.url = refusing_url();
  options_.first_wait_seconds = 30;
  const auto completion = complete();
  ASSERT_FALSE(completion.ok());
  EXPECT_EQ(completion.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(completion.error().message, HasSubstr("nobody answers"));
}

TEST_F(EndpointTest, ASilentServerIsLeftAfterATime) {
  options_.max_retries = 0;
  options_.idle_seconds = 0.2;
  serve([](const auto&, const auto& connection) { connection.client_left(5000); });
  const auto completion = complete();
  ASSERT_FALSE(completion.ok());
  EXPECT_EQ(completion.error().code, ErrorCode::kTimeout);
}

TEST_F(EndpointTest, IsCancelledInTheMiddleOfAnAnswer) {
  bool left = false;
  serve([&](const auto&, const auto& connection) {
    connection.begin_stream();
    connection.event(chunk_json("half"));
    cancel_.cancel();
    left = connection.client_left(5000);
  });
  const auto completion = complete();
  server_.reset();
  ASSERT_FALSE(completion.ok());
  EXPECT_EQ(completion.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(left);
}

TEST_F(EndpointTest, LeavesOutOptionsThatAreRefused) {
  serve([](const auto& request, const auto& connection) {
    if (request.body.find("\"logprobs\"") != std::string::npos)
      return void(connection.reply(400, R"({"error": {"message": "logprobs: not supported"}})"));
    connection.reply(200, "data: " + chunk_json("ok", "stop") + "\n\n");
  });
  options_.max_retries = 0;
  EXPECT_TRUE(complete().ok());
  EXPECT_EQ(asked(), 2u);
}

TEST_F(EndpointTest, APromptThatIsTooLongSaysWhatToLower) {
  const Error error = error_of(400, R"({"error": {"message": "exceeds the context size"}})");
  EXPECT_EQ(asked(), 1u);
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_THAT(error.hint, HasSubstr("--prompt-tokens"));
}

TEST_F(EndpointTest, ARedirectionIsNotFollowedWithTheKey) {
  serve([](const auto&, const auto& connection) {
    connection.reply(307, "", "Location: http://127.0.0.1:1/v1\r\n");
  });
  const auto completion = complete();
  ASSERT_FALSE(completion.ok());
  EXPECT_THAT(completion.error().hint, HasSubstr("redirects"));
}

TEST(CheckUrl, TakesHttpAndHttpsAndNoSecrets) {
  for (const char* good : {"http://127.0.0.1:8080/v1", "https://api.example.com/v1", "http://[::1]:80"})
    EXPECT_TRUE(http::check_url(good).ok()) << good;
  for (const char* bad : {"", "127.0.0.1:8080", "file:///etc/passwd", "http://", "ftp://host",
                          "https://user:secret@host/v1", "https://host/v1?key=secret", "http://a b"})
    EXPECT_FALSE(http::check_url(bad).ok()) << bad;
}

}  // namespace
}  // namespace lathe::openai
