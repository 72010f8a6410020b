#include "model/engine.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "model/engine_client.h"
#include "model/engine_wire.h"
#include "tests/model/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

engine_wire::Submit some_request() {
  GenerationRequest body{.prompt = {1, 2, 3}, .samples = 4, .max_tokens = 5};
  body.sampling = {.temperature = 0.5F, .top_p = 0.25F, .top_k = 7, .seed = 1ULL << 60};
  body.stop_texts = {"```", std::string("\0x", 2)};
  body.stop_tokens = {{9}, {8, 7}};
  body.ignore_end = true;
  auto grammar = std::make_shared<TokenAutomaton>();
  grammar->states = {{{{1, 0}, {5, TokenAutomaton::kForbidden}}, 1}, {}};
  body.grammar = grammar;
  return {77, std::move(body)};
}

TEST(EngineWire, MessagesArriveAsTheyWereSent) {
  const auto sent = some_request();
  const auto got = std::get<engine_wire::Submit>(engine_wire::decode(engine_wire::encode(sent)).value());
  EXPECT_EQ(got.request, 77u);
  EXPECT_EQ(got.body.prompt, sent.body.prompt);
  EXPECT_EQ(got.body.stop_texts, sent.body.stop_texts);
  EXPECT_EQ(got.body.stop_tokens, sent.body.stop_tokens);
  EXPECT_EQ(got.body.sampling.seed, sent.body.sampling.seed);
  EXPECT_EQ(got.body.sampling.top_k, 7);
  EXPECT_EQ(got.body.grammar->next(0, 5), TokenAutomaton::kForbidden);
  EXPECT_EQ(got.body.grammar->next(0, 4), 1);
  EXPECT_EQ(engine_wire::encode(got), engine_wire::encode(sent));

  const engine_wire::News news{3, {{{1, {4, 5}, {-0.5F, -1}, {-0.25F, -2}, FinishReason::kStop}}, true}};
  EXPECT_EQ(engine_wire::encode(engine_wire::decode(engine_wire::encode(news)).value()),
            engine_wire::encode(news));
}

TEST(EngineWire, DamagedMessagesAreErrors) {
  const std::string whole = engine_wire::encode(some_request());
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_EQ(engine_wire::decode(whole.substr(0, length)).error().code, ErrorCode::kCorrupt) << length;
  EXPECT_FALSE(engine_wire::decode(whole + "x").ok());
  EXPECT_FALSE(engine_wire::decode(std::string(1, '\x63')).ok());
}

TEST(EngineWire, LongMessagesTravelInMemory) {
  auto ends = Channel::make_pair().value();
  auto submit = some_request();
  submit.body.prompt.assign(100'000, 6);
  ASSERT_TRUE(engine_wire::send(ends.first, submit).ok());
  const auto got = engine_wire::receive(ends.second, 1000).value();
  EXPECT_EQ(std::get<engine_wire::Submit>(got).body.prompt, submit.body.prompt);
}

TEST(TokenAutomaton, ArrowsGoBeforeTheRest) {
  TokenAutomaton automaton;
  automaton.states = {{{{3, 1}, {5, TokenAutomaton::kForbidden}, {9, 0}}, 1}, {{{2, 0}}}};
  EXPECT_EQ(automaton.next(0, 3), 1);
  EXPECT_EQ(automaton.next(0, 5), TokenAutomaton::kForbidden);
  EXPECT_EQ(automaton.next(0, 4), 1);
  EXPECT_EQ(automaton.next(1, 2), 0);
  EXPECT_EQ(automaton.next(1, 3), TokenAutomaton::kForbidden);
}

class EngineClientTest : public testing::Test {
 protected:
  Error start(const std::string& script, double seconds = 20) {
    const std::string path = folder_.write("lathe-torch", "#!/bin/sh\n" + script + "\n");
    ::chmod(path.c_str(), 0755);
    auto started = start_engine({.program = path, .start_seconds = seconds});
    return started.ok() ? Error{} : started.error();
  }
  const TemporaryFolder folder_;
};

TEST_F(EngineClientTest, AProgramThatEndsSaysWhatItPrinted) {
  const Error error = start("echo libfoo.so: cannot open >&2; exit 3");
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("exit code 3"));
  EXPECT_THAT(error.message, HasSubstr("libfoo.so: cannot open"));
  EXPECT_THAT(start("kill -9 $$").message, HasSubstr("Killed"));
}

TEST_F(EngineClientTest, AProgramThatSaysNothingIsNotWaitedForForever) {
  EXPECT_EQ(start("exec sleep 100", 0.1).code, ErrorCode::kTimeout);
}

TEST_F(EngineClientTest, AProgramThatIsNotThereIsNamed) {
  const auto started = start_engine({.program = "/nowhere/lathe-torch"});
  EXPECT_THAT(started.error().to_string(), HasSubstr("/nowhere/lathe-torch"));
}

}  // namespace
}  // namespace lathe
