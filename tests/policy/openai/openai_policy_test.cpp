#include <gmock/gmock.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "policy/openai/openai.h"
#include "tests/gym/fake_task.h"
#include "tests/policy/openai/scripted_server.h"

namespace lathe {
namespace {

using testing::HasSubstr;

constexpr const char* kCandidate =
    "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\nint x;\n";

std::string answer_with(const std::string& comment) {
  return "Sure:\n```cpp\n" + std::string(kCandidate) + "// " + comment + "\n```\n";
}

class OpenAiPolicyTest : public testing::Test {
 protected:
  Result<std::vector<Proposal>> ask(ScriptedServer::Handler handler, int count) {
    server_ = std::make_unique<ScriptedServer>(std::move(handler));
    options_.endpoint.url = server_->url() + "/";
    options_.endpoint.max_retries = 1;
    options_.endpoint.first_wait_seconds = 0.01;
    auto policy = make_openai_policy(options_, events_);
    if (!policy.ok()) return policy.error();
    name_ = (*policy)->name();
    return propose_now(**policy, {.context = {shared_twice_task(), {.name = "device"}, {}},
                                  .count = count,
                                  .seed = Seed::from_number(3),
                                  .group = 5,
                                  .turn = 2});
  }

  OpenAiOptions options_{.model = "m"};
  RecordingSink events_;
  std::unique_ptr<ScriptedServer> server_;
  std::string name_;
};

TEST_F(OpenAiPolicyTest, ProposalsCarryTheirGenerationAndItsCost) {
  options_.budget.usd_per_prompt_token = 1e-3;
  options_.budget.usd_per_answer_token = 1e-2;
  options_.stream = false;
  const auto proposals = ask(
      [](const auto&, const auto& connection) {
        connection.reply(200, completion_json({answer_with("one"), answer_with("two")}, 100, 60));
      },
      2);
  ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
  ASSERT_EQ(proposals->size(), 2u);
  EXPECT_EQ(proposals->at(0).text, std::string(kCandidate) + "// one\n");
  EXPECT_EQ(proposals->at(0).lineage.policy, "openai:m");
  EXPECT_EQ(proposals->at(0).lineage.operation, "sample");
  const Generation& generation = *proposals->at(0).generation;
  EXPECT_EQ(generation.model, "scripted");
  EXPECT_EQ(generation.group, 5);
  EXPECT_EQ(generation.turn, 2);
  EXPECT_EQ(generation.answer.bytes, answer_with("one"));
  EXPECT_THAT(generation.prompt.bytes, HasSubstr("twice"));
  EXPECT_DOUBLE_EQ(generation.cost.at("prompt_tokens"), 50);
  EXPECT_DOUBLE_EQ(generation.cost.at("answer_tokens"), 30);
  EXPECT_DOUBLE_EQ(generation.cost.at("usd"), 0.05 + 0.3);
}

TEST_F(OpenAiPolicyTest, AServerThatGivesOneAnswerIsAskedOftener) {
  std::atomic<int> answers = 0;
  const auto proposals = ask(
      [&](const auto&, const auto& connection) {
        connection.reply(200, "data: " + chunk_json(answer_with(std::to_string(++answers)), "stop") + "\n\n");
      },
      5);
  ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
  EXPECT_EQ(proposals->size(), 5u);
  EXPECT_EQ(server_->requests().size(), 5u);
}

TEST_F(OpenAiPolicyTest, KeepsWhatItHasWhenLaterRequestsFail) {
  const auto proposals = ask(
      [](const auto& request, const auto& connection) {
        if (request.number > 0) return void(connection.reply(400, "no more"));
        connection.reply(200, "data: " + chunk_json(answer_with("x"), "stop") + "\n\n");
      },
      3);
  ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
  EXPECT_EQ(proposals->size(), 1u);
}

TEST_F(OpenAiPolicyTest, AnAnswerWithoutACandidateIsProposedAsItIs) {
  const auto proposals = ask(
      [](const auto&, const auto& connection) {
        connection.reply(200, "data: " + chunk_json("I cannot do this.", "length") + "\n\n");
      },
      1);
  ASSERT_TRUE(proposals.ok());
  EXPECT_EQ(proposals->at(0).text, "I cannot do this.");
  EXPECT_THAT(proposals->at(0).lineage.description, HasSubstr("cut off"));
}

TEST_F(OpenAiPolicyTest, HasNothingMoreOnceTheBudgetIsSpent) {
  options_.budget.tokens = 100;
  const auto proposals = ask([](const auto&, const auto&) {}, 1);
  ASSERT_TRUE(proposals.ok());
  EXPECT_TRUE(proposals->empty());
  EXPECT_TRUE(server_->requests().empty());
  EXPECT_EQ(events_.events().at(0).kind, "model.budget");
}

TEST_F(OpenAiPolicyTest, ABudgetShortensWhatIsAskedFor) {
  options_.budget.tokens = 4000;
  options_.spent_tokens = 1000;
  const auto proposals =
      ask([](const auto&,
             const auto& connection) { connection.reply(200, "data: " + chunk_json("x", "stop") + "\n\n"); },
          1);
  const auto body = nlohmann::json::parse(server_->requests().at(0).body);
  EXPECT_LT(body["max_tokens"], 3000);
  EXPECT_GE(body["max_tokens"], 128);
}

TEST_F(OpenAiPolicyTest, TakesTheOnlyModelOfAnEndpoint) {
  options_.model.clear();
  const auto proposals = ask(
      [](const auto& request, const auto& connection) {
        if (request.asks_for("/v1/models"))
          return void(connection.reply(200, R"({"data": [{"id": "only"}]})"));
        connection.reply(200, "data: " + chunk_json("x", "stop") + "\n\n");
      },
      1);
  ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
  EXPECT_EQ(name_, "openai:only");
}

TEST_F(OpenAiPolicyTest, EndsInTheMiddleOfARequest) {
  ScriptedServer server([](const auto&, const auto& connection) {
    connection.begin_stream();
    connection.client_left(10'000);
  });
  options_.endpoint.url = server.url();
  {
    auto policy = make_openai_policy(options_, events_);
    ASSERT_TRUE(policy.ok());
    (*policy)->ask({.context = {shared_twice_task(), {}, {}}, .count = 2});
    while (server.requests().empty()) std::this_thread::yield();
  }
  SUCCEED() << "the destructor has come back";
}

}  // namespace
}  // namespace lathe
