#include <gmock/gmock.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/random.h"
#include "record/json.h"
#include "serve/api.h"
#include "serve/message.h"
#include "serve/request_json.h"

namespace lathe::serve {
namespace {

WorkOrder make_order() {
  return {.lease = 7,
          .id = digest_of("id"),
          .trace = "trace",
          .task = digest_of("task"),
          .task_name = "softmax",
          .task_text = "name = \"softmax\"",
          .candidate = "/*lathe */ \"quoted\" \n",
          .depth = Depth::kFinal,
          .deadline_seconds = 2.5};
}

TEST(Message, WorkersAndFrontEndsUnderstandEachOther) {
  const auto order = std::get<WorkOrder>(decode_front_message(encode(FrontMessage(make_order()))).value());
  EXPECT_EQ(order.lease, 7);
  EXPECT_EQ(order.candidate, make_order().candidate);
  EXPECT_EQ(order.depth, Depth::kFinal);
  EXPECT_EQ(order.task, digest_of("task"));
  EXPECT_EQ(std::get<CancelOrder>(decode_front_message(encode(FrontMessage(CancelOrder{9}))).value()).lease,
            9);

  Verdict verdict;
  verdict.outcome = Outcome::kWrong;
  verdict.reason = "bound";
  const auto answer = std::get<WorkerAnswer>(
      decode_worker_message(encode(WorkerMessage(WorkerAnswer{3, verdict, {}}))).value());
  EXPECT_EQ(answer.verdict->reason, "bound");
  const auto failed = std::get<WorkerAnswer>(
      decode_worker_message(
          encode(WorkerMessage(WorkerAnswer{3, std::nullopt, {ErrorCode::kTimeout, "late"}})))
          .value());
  EXPECT_FALSE(failed.verdict);
  EXPECT_EQ(failed.error.code, ErrorCode::kTimeout);
  const auto hello = std::get<WorkerHello>(
      decode_worker_message(
          encode(WorkerMessage(WorkerHello{.kind = {"cuda", "5"}, .device_name = "H200", .slots = 6})))
          .value());
  EXPECT_EQ(hello.kind, (WorkerKind{"cuda", "5"}));
  EXPECT_EQ(hello.slots, 6);
}

TEST(Message, WhateverComesIsAMessageOrAnError) {
  Rng rng(Seed::from_number(5));
  Verdict verdict;
  const std::vector<std::string> sound = {
      encode(FrontMessage(make_order())),
      encode(WorkerMessage(WorkerAnswer{3, verdict, {}})),
      encode(WorkerMessage(WorkerBeat{1.5})),
      encode(WorkerMessage(WorkerLeaves{})),
      R"({"items": [{"task": "t", "candidate": "\ud800"}, {"task": "t", "candidate": "]\\\""}]})",
      encode(WorkerMessage(
          WorkerDevice{{.device = {.kind = "cpu", .name = "box"}, .peaks = {.levels = {{"L1", 1, 2}}}}}))};
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = sound[rng.below(sound.size())];
    for (std::uint64_t edits = 1 + rng.below(4); edits > 0; --edits) {
      const std::size_t at = rng.below(bytes.size());
      if (rng.chance(0.5))
        bytes[at] = static_cast<char>(rng.below(256));
      else
        bytes.erase(at, 1 + rng.below(8));
      if (bytes.empty()) bytes = "{";
    }
    (void)decode_front_message(bytes);
    (void)decode_worker_message(bytes);
    (void)parse_evaluation(bytes);
    (void)parse_batch(bytes);
  }
}

TEST(Message, AStreamKeepsBoundariesAndRefusesGiants) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  MessageStream a{UniqueFd(ends[0])}, b{UniqueFd(ends[1])};
  const std::string large(3 << 20, 'x');
  std::thread sends([&] {
    EXPECT_TRUE(a.send("one").ok());
    EXPECT_TRUE(a.send(large).ok());
    const std::uint32_t giant = 0x7fffffff;
    EXPECT_EQ(::send(ends[0], &giant, sizeof giant, 0), 4);
  });
  EXPECT_EQ(b.receive().value(), "one");
  EXPECT_EQ(b.receive().value(), large);
  EXPECT_EQ(b.receive().error().code, ErrorCode::kCorrupt);
  sends.join();
  a.close();
  EXPECT_EQ(b.receive().error().code, ErrorCode::kIo);
}

TEST(EvaluationId, NamesEverythingThatMayChangeAVerdict) {
  const EvaluationKey key{digest_of("t"), digest_of("c"), Depth::kScreen, "cpu", "5"};
  EXPECT_EQ(key.id(), EvaluationKey(key).id());
  EvaluationKey swapped = key;
  std::swap(swapped.task, swapped.candidate);
  EXPECT_NE(key.id(), swapped.id());
}

TEST(RequestJson, NestingIsBoundedBeforeParsing) {
  const std::string deep = R"({"task":"t","candidate":"x","tag":)" + std::string(200'000, '[');
  EXPECT_THAT(parse_evaluation(deep).error().message, testing::HasSubstr("nested"));
  EXPECT_TRUE(
      parse_evaluation(R"({"task":"t","candidate":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[{{{{"})").ok())
      << "brackets in a text are no nesting";
}

TEST(RequestJson, ABatchIsBounded) {
  nlohmann::json items = nlohmann::json::array();
  for (std::size_t i = 0; i <= kMaxBatch; ++i) items.push_back({{"task", "t"}, {"candidate", "x"}});
  EXPECT_FALSE(parse_batch(nlohmann::json({{"items", items}}).dump()).ok());
  items.erase(0);
  EXPECT_EQ(parse_batch(nlohmann::json({{"items", items}}).dump())->size(), kMaxBatch);
}

TEST(RequestJson, AnItemThatIsNoJsonDoesNotSpoilTheOthers) {
  const auto messages = [](const std::string& items) {
    std::vector<std::string> all;
    const auto batch = parse_batch("{ \"items\" : [" + items + "] }");
    if (!batch.ok()) return std::vector<std::string>{"batch: " + batch.error().message};
    for (const auto& item : *batch) all.push_back(item.ok() ? "" : item.error().message);
    return all;
  };
  const std::string good = R"({"task":"t","candidate":"], \\\" ["})";
  const auto is_no_json = testing::HasSubstr("the item is no JSON");
  for (const char* const bad :
       {R"({"task":"t","candidate":"\ud800"})", R"({"task":"t","candidate":"\udc00\ud800"})",
        "{\"task\":\"t\",\"candidate\":\"\xff\"}", R"({"task":"t","priority":1e999})", "{\"task\" \"t\"}",
        "nil"}) {
    EXPECT_THAT(messages(good + "," + bad + ", " + good), testing::ElementsAre("", is_no_json, "")) << bad;
    EXPECT_THAT(messages(bad), testing::ElementsAre(is_no_json)) << bad;
  }
  const std::string lone = R"({"task":"t","candidate":"\ud800"})";
  const auto is_no_batch = testing::ElementsAre(testing::StartsWith("batch: the body is no JSON"));
  EXPECT_THAT(messages(lone + ","), is_no_batch);
  EXPECT_THAT(messages("," + lone), is_no_batch);
  EXPECT_THAT(messages(lone + "}"), is_no_batch);
  EXPECT_THAT(messages(lone + "],\"items\":[" + lone), is_no_batch) << "which list is meant?";
  EXPECT_THAT(messages(lone + "],\"more\":[" + lone), is_no_batch);
  EXPECT_THAT(messages(lone + "],\"more\":{\"a\":1},\"items\":[" + lone), is_no_batch);
  EXPECT_FALSE(parse_batch(R"({"items":{"items":["\ud800"]}})").ok());
  EXPECT_FALSE(parse_batch(R"(["\ud800"])").ok());
}

TEST(Request, AnAnswerOfAModelHasACandidate) {
  const std::string answer = "First:\n```\nint x;\n```\nBetter:\n```cpp\n/*lathe\n*/\nint y;\n```\nDone.";
  const auto item = parse_evaluation(nlohmann::json({{"task", "softmax"}, {"answer", answer}}).dump());
  ASSERT_TRUE(item.ok()) << item.error().to_string();
  EXPECT_EQ(item->candidate, "/*lathe\n*/\nint y;\n");
  EXPECT_EQ(parse_evaluation(R"({"task": "softmax", "answer": "I cannot."})")->candidate, "I cannot.");
  EXPECT_FALSE(parse_evaluation(R"({"task": "softmax", "answer": "x", "candidate": "x"})").ok());
  EXPECT_FALSE(parse_evaluation(R"({"task": "softmax", "answer": 3})").ok());
}

Report report_of(const Verdict& verdict) {
  return {.id = digest_of("id"), .state = State::kDone, .verdict = json_text(to_json(verdict))};
}

Verdict passed(double over_naive, double over_library) {
  Verdict verdict;
  verdict.outcome = Outcome::kPass;
  verdict.reason = "ok";
  verdict.depth = Depth::kScreen;
  verdict.text_bytes = 1000;
  verdict.evidence.cases = {{.shape = "n=4", .worst_ratio = 0.5}};
  verdict.speedups = {
      {.baseline = "naive", .shape = "n=4", .ratio = {over_naive, over_naive, over_naive}, .roof = 3},
      {.baseline = "library",
       .shape = "n=4",
       .ratio = {over_library, over_library, over_library},
       .roof = 2}};
  return verdict;
}

RewardQuestion question(const std::string& reward, const std::string& peer = {}) {
  return {find_reward(reward).value(), peer};
}

TEST(Requests, AFieldThatOccursTwiceIsRefused) {
  const auto twice = parse_evaluation(R"({"task": "a", "candidate": "x", "task": "b"})");
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.error().message, testing::HasSubstr("the field 'task' twice"));
  EXPECT_FALSE(parse_evaluation(R"({"task": {"toml": "a", "toml": "b"}, "candidate": "x"})").ok());
  EXPECT_TRUE(parse_evaluation(R"({"task": {"name": "task"}, "candidate": "task"})").ok());
  const auto batch = parse_batch(
      R"({"items": [{"task": "a", "candidate": "x"}, {"task": "a", "candidate": "x", "candidate": "y"}]})");
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE((*batch)[0].ok());
  ASSERT_FALSE((*batch)[1].ok());
  EXPECT_THAT((*batch)[1].error().message, testing::HasSubstr("'candidate' twice"));
  const auto lists = parse_batch(
      R"({"items": [{"task": "a", "candidate": "x"}], "items": [{"task": "b", "candidate": "x"}]})");
  ASSERT_FALSE(lists.ok());
  EXPECT_THAT(lists.error().message, testing::HasSubstr("'items' twice"));
}

TEST(Evidence, RewardsAreTheNamedFunctions) {
  const Verdict verdict = passed(2.5, 1.25);
  for (const Reward& reward : rewards()) {
    if (reward.name == "dr_kernel_profiled") continue;
    for (const std::string peer : {"naive", "library"}) {
      const auto document = evidence_json(report_of(verdict), question(std::string(reward.name), peer));
      ASSERT_TRUE(document.ok()) << reward.name;
      EXPECT_DOUBLE_EQ((*document)["reward"].get<double>(), reward.function(verdict, peer).value());
    }
  }
  const auto hardest = evidence_json(report_of(verdict), question("speedup"));
  EXPECT_DOUBLE_EQ((*hardest)["reward"].get<double>(), 2.25) << "over every baseline: the smallest";
  EXPECT_FALSE(evidence_json(report_of(verdict))->contains("reward")) << "nobody asked";
}

TEST(Evidence, FailuresAreZeroAndInfraIsNoNumber) {
  Verdict verdict;
  verdict.outcome = Outcome::kWrong;
  verdict.depth = Depth::kScreen;
  EXPECT_EQ((*evidence_json(report_of(verdict), question("speedup", "naive")))["reward"], 0.0);
  verdict.outcome = Outcome::kInfra;
  const auto infra = evidence_json(report_of(verdict), question("correct"));
  EXPECT_FALSE(infra->contains("reward"));
  EXPECT_EQ((*infra)["retry"], true);
}

TEST(Evidence, OfADepthThatSaysTooLittleThereIsNoRewardWhateverTheOutcome) {
  for (const Outcome outcome : {Outcome::kPass, Outcome::kWrong}) {
    Verdict verified;
    verified.outcome = outcome;
    EXPECT_EQ((*evidence_json(report_of(verified), question("correct")))["reward"],
              outcome == Outcome::kPass ? 1.0 : 0.0);
    EXPECT_FALSE(evidence_json(report_of(verified), question("speedup")).ok());
    verified.depth = Depth::kBuild;
    EXPECT_FALSE(evidence_json(report_of(verified), question("correct")).ok());
  }
}

TEST(Evidence, WhatCannotBeRewardedSaysWhy) {
  const auto no_peer = evidence_json(report_of(passed(2, 1)), question("speedup", "cublas"));
  ASSERT_FALSE(no_peer.ok());
  EXPECT_EQ(no_peer.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(no_peer.error().hint, testing::HasSubstr("library, naive"));
  const auto no_profile = evidence_json(report_of(passed(2, 1)), question("dr_kernel_profiled"));
  ASSERT_FALSE(no_profile.ok());
  EXPECT_EQ(no_profile.error().code, ErrorCode::kInvalid);

  EXPECT_FALSE(parse_reward({})->has_value());
  EXPECT_EQ((*parse_reward({{"reward", "correct"}, {"peer", "naive"}}))->peer, "naive");
  EXPECT_FALSE(parse_reward({{"peer", "naive"}}).ok());
  const auto misspelt = parse_reward({{"reward", "correct"}, {"peer", "cubals"}});
  ASSERT_FALSE(misspelt.ok());
  EXPECT_THAT(misspelt.error().to_string(), testing::HasSubstr("cubals"));
  EXPECT_THAT(misspelt.error().hint, testing::HasSubstr("cublas"));
  const auto unknown = parse_reward({{"reward", "best"}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().hint, testing::HasSubstr("log_speedup"));
}

TEST(Evidence, TheDocumentNamesEveryReward) {
  const auto document = nlohmann::json::parse(kOpenApiDocument);
  const auto& parameters = document["paths"]["/v1/evaluations/{id}/evidence"]["get"]["parameters"];
  nlohmann::json names = nlohmann::json::array();
  for (const Reward& reward : rewards()) names.push_back(reward.name);
  const auto reward = std::ranges::find(parameters, "reward", [](const auto& one) { return one["name"]; });
  ASSERT_NE(reward, parameters.end());
  EXPECT_EQ((*reward)["schema"]["enum"], names);
}

}  // namespace
}  // namespace lathe::serve
