#include <gmock/gmock.h>

#include <atomic>
#include <mutex>

#include "model/text_grammar.h"
#include "policy/local/local.h"
#include "tests/gym/fake_task.h"
#include "tests/model/byte_model.h"

namespace lathe {
namespace {

using testing::HasSubstr;

constexpr TokenId kEnd = 256;
constexpr const char* kCandidate =
    "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\nint x;\n";

/// What the engines of a test do, and what they were asked.
struct Script {
  std::function<std::string(const GenerationRequest&, std::int32_t sample)> answer;
  int samples_before_death = 1 << 30;  ///< of each engine
  int engines_that_die = 1 << 30;
  bool hangs = false;
  std::int32_t context = 4000;
  std::string no_gpu;
  std::atomic<int> started = 0, cancelled = 0;
  std::mutex mutex;
  std::vector<GenerationRequest> requests;
};

/// An engine that writes the script's texts, one sample each time it is asked for news.
class ScriptedEngine final : public Engine {
 public:
  explicit ScriptedEngine(Script& script) : script_(script), number_(++script.started) {
    info_ = {.model = "m",
             .device = "cpu",
             .precision = "f32",
             .no_gpu = script.no_gpu,
             .vocab = 257,
             .context = script.context,
             .max_batch = 8};
    info_.weights = digest_of("weights");
    info_.tokenizer = digest_of("tokenizer");
  }
  const EngineInfo& info() const override { return info_; }
  Result<std::uint64_t> submit(GenerationRequest request) override {
    LATHE_CHECK_OK(check_request(request, info_.vocab, info_.context));
    std::lock_guard lock(script_.mutex);
    script_.requests.push_back(request);
    left_[++last_] = {std::move(request), 0};
    return last_;
  }
  Result<GenerationNews> wait(std::uint64_t request, double) override {
    if (script_.hangs && number_ == 1) return Error{ErrorCode::kTimeout, "nothing"};
    if (given_ >= script_.samples_before_death && number_ <= script_.engines_that_die)
      return Error{ErrorCode::kUnavailable, "lathe-torch ended: Killed"};
    auto& [asked, next] = left_.at(request);
    Sample sample{.index = next, .finish = FinishReason::kEnd};
    for (const char c : script_.answer(asked, next)) sample.tokens.push_back(static_cast<unsigned char>(c));
    sample.tokens.push_back(kEnd);
    for (const TokenId token : sample.tokens)
      sample.log_probs.push_back(-static_cast<float>(token) / 16), sample.model_log_probs.push_back(-9);
    ++given_;
    GenerationNews news;
    news.samples.push_back(std::move(sample));
    news.done = ++next == asked.samples;
    return news;
  }
  void cancel(std::uint64_t) override { ++script_.cancelled; }

 private:
  Script& script_;
  const int number_;
  EngineInfo info_;
  std::map<std::uint64_t, std::pair<GenerationRequest, std::int32_t>> left_;
  std::uint64_t last_ = 0;
  int given_ = 0;
};

class TwoWords final : public ActionLanguage {
 public:
  std::string_view name() const override { return "two"; }
  Result<std::optional<Wording>> wording(const PolicyContext&) const override {
    return std::optional<Wording>();
  }
  Result<std::string> candidate(const PolicyContext&, std::string_view answer) const override {
    if (answer == "no") return invalid("no is no answer");
    return std::string(kCandidate);
  }
  Result<std::string> carry_over(const PolicyContext&, const TaskSpec&,
                                 std::string_view answer) const override {
    return std::string(answer);
  }
  Result<std::shared_ptr<const TextGrammar>> grammar(const PolicyContext&) const override {
    return std::make_shared<const TextGrammar>(TextGrammar{{{{{"yes", 1}, {"no", 1}}}, {{}, true}}});
  }
  std::vector<std::string> stop_texts() const override { return {}; }
};

class LocalPolicyTest : public testing::Test {
 protected:
  LocalPolicyTest() {
    script_.answer = [](const GenerationRequest& request, std::int32_t sample) {
      return "```cpp\n" + std::string(kCandidate) + "// " + std::to_string(request.sampling.seed) + " " +
             std::to_string(sample) + "\n}\n```";
    };
    options_.model = model_;
    options_.start_engine = [this]() -> Result<std::unique_ptr<Engine>> {
      return std::unique_ptr<Engine>(std::make_unique<ScriptedEngine>(script_));
    };
    options_.answer_tokens = 500;
    options_.prompt.max_tokens = 100'000;
  }
  std::unique_ptr<Policy> policy() {
    auto made = make_local_policy(options_, events_);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return *std::move(made);
  }
  static ProposalRequest request(int count) {
    return {.context = {shared_twice_task(), {.name = "device"}, {}},
            .count = count,
            .seed = Seed::from_number(3),
            .group = 5,
            .turn = 2};
  }

  const TemporaryFolder folder_;
  const std::string model_ = folder_.write("bytes.gguf", byte_model_gguf());
  Script script_;
  LocalOptions options_;
  RecordingSink events_;
};

TEST_F(LocalPolicyTest, ProposalsCarryAllThatTrainingNeeds) {
  const auto asked = policy();
  EXPECT_EQ(asked->name(), "local:bytes.gguf");
  const auto proposals = propose_now(*asked, request(3));
  ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
  ASSERT_EQ(proposals->size(), 3u);
  ASSERT_EQ(script_.requests.size(), 1u) << "the samples share one prompt";
  const GenerationRequest& sent = script_.requests[0];
  EXPECT_EQ(sent.samples, 3);
  EXPECT_THAT(sent.stop_texts, testing::ElementsAre("}\n```"));
  const Proposal& second = proposals->at(1);
  EXPECT_THAT(second.text, testing::StartsWith(kCandidate));
  EXPECT_EQ(second.lineage.operation, "sample");
  const Generation& generation = *second.generation;
  EXPECT_THAT(generation.model, HasSubstr("bytes.gguf f32 " + digest_of("weights").hex()));
  EXPECT_EQ(generation.tokenizer, digest_of("tokenizer").hex());
  EXPECT_EQ(generation.group, 5);
  EXPECT_EQ(generation.turn, 2);
  EXPECT_EQ(generation.sampling.at("seed"), static_cast<double>(sent.sampling.seed));
  EXPECT_EQ(static_cast<std::uint64_t>(generation.sampling.at("seed")), sent.sampling.seed);
  EXPECT_EQ(generation.sampling.at("sample"), 1);
  EXPECT_EQ(unpack<std::int32_t>(generation.prompt_tokens.bytes).value(), sent.prompt);
  const auto tokens = unpack<std::int32_t>(generation.answer_tokens.bytes).value();
  const auto log_probs = unpack<float>(generation.answer_log_probabilities.bytes).value();
  ASSERT_EQ(tokens.size(), log_probs.size());
  EXPECT_EQ(tokens.back(), kEnd) << "the end was sampled too";
  for (std::size_t i = 0; i < tokens.size(); ++i)
    EXPECT_EQ(log_probs[i], -static_cast<float>(tokens[i]) / 16);
  EXPECT_EQ(generation.loss_mask.bytes, std::string(tokens.size(), '\1'));
  EXPECT_THAT(generation.prompt.bytes, HasSubstr("twice"));
  EXPECT_THAT(generation.answer.bytes, HasSubstr(" 1\n}\n```"));
  EXPECT_DOUBLE_EQ(generation.cost.at("prompt_tokens"), static_cast<double>(sent.prompt.size()) / 3);
  EXPECT_DOUBLE_EQ(generation.cost.at("answer_tokens"), static_cast<double>(tokens.size()));
}

TEST_F(LocalPolicyTest, ARequestMayHaveATemperatureOfItsOwn) {
  ProposalRequest greedy = request(1);
  greedy.temperature = 0;
  const auto asked = policy();
  const auto proposals = propose_now(*asked, greedy);
  ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
  EXPECT_EQ(script_.requests[0].sampling.temperature, 0);
  EXPECT_EQ(proposals->front().generation->sampling.at("temperature"), 0);
  ASSERT_TRUE(propose_now(*asked, request(1)).ok());
  EXPECT_EQ(script_.requests[1].sampling.temperature, 1);
}

TEST_F(LocalPolicyTest, AnEngineThatDiesIsStartedAgainAndNothingIsLost) {
  const auto whole = propose_now(*policy(), request(4));
  script_.requests.clear();
  script_.started = 0;
  script_.samples_before_death = 2;
  script_.engines_that_die = 1;
  const auto proposals = propose_now(*policy(), request(4));
  ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
  EXPECT_EQ(script_.started, 2);
  ASSERT_EQ(proposals->size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(proposals->at(i).text, whole->at(i).text);
  bool told = false;
  for (const Event& event : events_.events())
    told = told || (event.kind == "model.engine" && event.text.find("Killed") != std::string::npos);
  EXPECT_TRUE(told);
}

TEST_F(LocalPolicyTest, AnEngineThatDiesAgainAndAgainIsAnErrorAndALaterRequestTriesAfresh) {
  script_.samples_before_death = 0;
  script_.engines_that_die = 3;
  const auto asked = policy();
  const auto failed = propose_now(*asked, request(2));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(failed.error().to_string(), HasSubstr("3 times in a row"));
  EXPECT_THAT(failed.error().to_string(), HasSubstr("memory"));
  EXPECT_EQ(script_.started, 3);
  EXPECT_TRUE(propose_now(*asked, request(2)).ok());
}

TEST_F(LocalPolicyTest, AnEngineThatHangsIsReplaced) {
  script_.hangs = true;
  options_.patience_seconds = 0.05;
  const auto proposals = propose_now(*policy(), request(1));
  ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
  EXPECT_EQ(script_.started, 2);
}

TEST_F(LocalPolicyTest, ACancelledRequestIsDroppedInTheEngine) {
  script_.hangs = true;
  const auto asked = policy();
  ProposalRequest dropped = request(1);
  const CancelToken cancel = dropped.cancel;
  asked->ask(std::move(dropped));
  while (true) {
    std::lock_guard lock(script_.mutex);
    if (!script_.requests.empty()) break;
  }
  cancel.cancel();
  const auto answer = asked->poll(10);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->proposals.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(script_.cancelled, 1);
}

TEST_F(LocalPolicyTest, ABudgetOfTokensIsKept) {
  options_.budget.tokens = 9000;
  const auto asked = policy();
  int answers = 0;
  double tokens = 0;
  for (;;) {
    const auto proposals = propose_now(*asked, request(2));
    ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
    if (proposals->empty()) break;
    for (const Proposal& proposal : *proposals)
      tokens += proposal.generation->cost.at("prompt_tokens") + proposal.generation->cost.at("answer_tokens");
    answers += static_cast<int>(proposals->size());
  }
  EXPECT_GT(answers, 0);
  EXPECT_LE(tokens, 9000);
}

TEST_F(LocalPolicyTest, APromptThatDoesNotFitTheModelsContextIsAnError) {
  options_.answer_tokens = 3900;
  const auto proposals = propose_now(*policy(), request(1));
  ASSERT_FALSE(proposals.ok());
  EXPECT_THAT(proposals.error().message, HasSubstr("2000 are allowed"));
}

TEST_F(LocalPolicyTest, AnAnswerMayFillWhatThePromptLeavesOfTheContext) {
  script_.context = 10'000;
  options_.answer_tokens = 9000;
  const auto asked = policy();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(propose_now(*asked, request(1)).ok());
  const GenerationRequest& first = script_.requests.front();
  EXPECT_EQ(first.max_tokens, 10'000 - static_cast<std::int32_t>(first.prompt.size()));
  EXPECT_GT(first.max_tokens, 5000);
  std::vector<std::string> told;
  for (const Event& event : events_.events())
    if (event.kind == "model.context") told.push_back(event.text);
  ASSERT_EQ(told.size(), 1u) << "said once, not for each request";
  EXPECT_THAT(told[0], HasSubstr("of the 9000 asked for"));
}

TEST_F(LocalPolicyTest, ALanguageWithAGrammarIsDecodedUnderIt) {
  options_.language = std::make_shared<TwoWords>();
  script_.answer = [](const GenerationRequest& asked, std::int32_t sample) {
    EXPECT_TRUE(asked.grammar != nullptr);
    EXPECT_EQ(asked.max_tokens, 4) << "the longest text and its end";
    std::int32_t state = 0;
    for (const char c : std::string("yes")) state = asked.grammar->next(state, static_cast<unsigned char>(c));
    EXPECT_NE(asked.grammar->next(state, kEnd), TokenAutomaton::kForbidden);
    EXPECT_EQ(asked.grammar->next(0, 'x'), TokenAutomaton::kForbidden);
    return sample == 0 ? "yes" : "no";
  };
  const auto proposals = propose_now(*policy(), request(2));
  ASSERT_TRUE(proposals.ok()) << proposals.error().to_string();
  EXPECT_EQ(proposals->at(0).text, kCandidate);
  EXPECT_EQ(proposals->at(0).generation->sampling.at("grammar"), 1);
  EXPECT_EQ(proposals->at(1).text, "no");
  EXPECT_THAT(proposals->at(1).unreadable->message, HasSubstr("no is no answer"));
}

TEST_F(LocalPolicyTest, NothingIsTimedWhileTheModelWrites) {
  DeviceLane lane(DeviceLane::Grain::kStage);
  options_.lane = &lane;
  std::atomic<bool> may_write = false, writing = false;
  script_.answer = [&](const GenerationRequest&, std::int32_t) {
    writing = true;
    while (!may_write) std::this_thread::yield();
    return "x";
  };
  const auto asked = policy();
  asked->ask(request(1));
  while (!writing) std::this_thread::yield();
  std::atomic<bool> timing = false;
  std::thread timer([&] {
    const auto lease = lane.take(DeviceLane::Use::kTiming, DeviceLane::Grain::kStage);
    timing = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(timing);
  may_write = true;
  timer.join();
  EXPECT_TRUE(timing);
}

/// A package that lacked the engine's part for GPUs once wrote 80 tokens a second beside an idle
/// one.
TEST_F(LocalPolicyTest, AModelThatComputesBesideAnIdleGpuSaysSo) {
  (void)policy();
  EXPECT_TRUE(events_.events().empty());
  script_.no_gpu = "no GPU can be used: liblathe-torch-cuda.so is missing";
  (void)policy();
  ASSERT_EQ(events_.events().size(), 1u);
  EXPECT_EQ(events_.events()[0].severity, Severity::kWarning);
  EXPECT_THAT(events_.events()[0].text,
              AllOf(HasSubstr("on cpu"), HasSubstr("liblathe-torch-cuda.so is missing")));
}

TEST_F(LocalPolicyTest, WhatKeepsTheEngineFromStartingIsTold) {
  options_.start_engine = []() -> Result<std::unique_ptr<Engine>> { return invalid("no such model"); };
  EXPECT_THAT(make_local_policy(options_, events_).error().message, HasSubstr("no such model"));
}

}  // namespace
}  // namespace lathe
