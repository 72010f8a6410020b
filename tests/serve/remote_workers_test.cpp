#include "serve/remote_workers.h"

#include <gmock/gmock.h>

#include "bench/serve/fake_verdict.h"

namespace lathe::serve {
namespace {

using testing::HasSubstr;

/// What the service is told.
class RecordingService final : public WorkerSink {
 public:
  void worker_joined(std::string name, WorkerHello, std::shared_ptr<WorkerLink> link) override {
    names.push_back(std::move(name));
    links.push_back(std::move(link));
  }
  void worker_said(std::string name, WorkerMessage message) override {
    said.emplace_back(std::move(name), std::move(message));
  }
  void worker_ended(std::string, WorkerEnd end) override { ends.push_back(end); }

  std::vector<std::string> names;
  std::vector<std::shared_ptr<WorkerLink>> links;
  std::vector<std::pair<std::string, WorkerMessage>> said;
  std::vector<WorkerEnd> ends;
};

class RemoteWorkersTest : public testing::Test {
 protected:
  static WorkerJoin make_join(const std::string& device_kind = "cpu", const std::string& version = "1") {
    return {"box/cpu", {.kind = {device_kind, version}, .device_name = "fake", .slots = 4}};
  }
  std::string join() { return workers_->join("worker-1", make_join()).value(); }
  Result<std::int64_t> say(const std::string& session, const WorkerBatch& batch) {
    return workers_->say("worker-1", session, encode(batch));
  }
  /// What a poll that does not wait gives.
  RemoteWorkers::Polled poll(const std::string& session, std::int64_t after,
                             const std::string& owner = "worker-1") {
    RemoteWorkers::Polled polled = Error{ErrorCode::kInternal, "no answer"};
    workers_->poll(owner, session, after, 0, [&](RemoteWorkers::Polled batch) { polled = std::move(batch); });
    return polled;
  }

  RecordingService service_;
  std::unique_ptr<RemoteWorkers> workers_ = RemoteWorkers::make(service_, {"cpu", "1"});
};

TEST_F(RemoteWorkersTest, OrdersComeUntilTheyHaveArrived) {
  const std::string session = join();
  EXPECT_EQ(service_.names.at(0), "worker-1/box/cpu#1");
  service_.links.at(0)->send(WorkOrder{.lease = 7});
  service_.links.at(0)->send(CancelOrder{7});
  const auto first = poll(session, 0);
  EXPECT_EQ(first->first, 1);
  EXPECT_EQ(first->messages.size(), 2u);
  EXPECT_EQ(poll(session, 0)->messages.size(), 2u) << "the reply may have been lost";
  const auto rest = poll(session, 1);
  EXPECT_EQ(rest->first, 2);
  ASSERT_EQ(rest->messages.size(), 1u);
  EXPECT_EQ(std::get<CancelOrder>(rest->messages[0]).lease, 7);
  EXPECT_TRUE(poll(session, 2)->messages.empty());
  EXPECT_TRUE(poll(session, 1000)->messages.empty()) << "more than there was";
}

TEST_F(RemoteWorkersTest, WhoWaitsIsToldAtOnce) {
  const std::string session = join();
  std::vector<RemoteWorkers::Polled> polled;
  const auto keep = [&](RemoteWorkers::Polled batch) { polled.push_back(std::move(batch)); };
  workers_->poll("worker-1", session, 0, 60, keep);
  EXPECT_TRUE(polled.empty());
  workers_->poll("worker-1", session, 0, 60, keep);
  ASSERT_EQ(polled.size(), 1u) << "a newer poll ends the one of a connection that broke";
  EXPECT_TRUE(polled[0].ok() && polled[0]->messages.empty());
  service_.links.at(0)->send(CancelOrder{3});
  ASSERT_EQ(polled.size(), 2u);
  EXPECT_EQ(polled[1]->messages.size(), 1u);
  workers_->poll("worker-1", session, 1, 1e-9, keep);
  EXPECT_EQ(say(session, {1, {WorkerBeat{}}}).value(), 1);
  ASSERT_EQ(polled.size(), 3u) << "it has waited long enough";
  workers_->poll("worker-1", session, 1, 60, keep);
  service_.links.clear();
  ASSERT_EQ(polled.size(), 4u);
  EXPECT_EQ(polled[3].error().code, ErrorCode::kCancelled);
  EXPECT_EQ(poll(session, 1).error().code, ErrorCode::kNotFound);
}

TEST_F(RemoteWorkersTest, WhatComesTwiceCountsOnce) {
  const std::string session = join();
  EXPECT_EQ(say(session, {1, {WorkerBeat{1}, WorkerBeat{2}}}).value(), 2);
  EXPECT_EQ(say(session, {1, {WorkerBeat{1}, WorkerBeat{2}, WorkerBeat{3}}}).value(), 3);
  EXPECT_EQ(service_.said.size(), 3u);
  EXPECT_EQ(std::get<WorkerBeat>(service_.said[2].second).busy_seconds, 3);
  EXPECT_EQ(say(session, {5, {WorkerBeat{5}}}).error().code, ErrorCode::kInvalid) << "the fourth is missing";
  EXPECT_EQ(service_.ends, std::vector{WorkerEnd::kFailed});
  EXPECT_EQ(say(session, {4, {WorkerBeat{}}}).error().code, ErrorCode::kCancelled);
}

TEST_F(RemoteWorkersTest, WhatIsNoMessageEndsTheSession) {
  for (const char* const body :
       {"", "{", "[]", R"({"first":1})", R"({"first":0,"messages":[]})",
        R"({"first":1,"messages":[],"first":1})", R"({"first":1,"messages":[{"type":"order"}]})",
        R"({"first":1,"messages":[{"type":"answer","lease":"x"}]})",
        R"({"first":1,"messages":[{"type":"answer","lease":1,"verdict":{}}]})"}) {
    service_.ends.clear();
    const std::string session = join();
    EXPECT_EQ(workers_->say("worker-1", session, body).error().code, ErrorCode::kInvalid) << body;
    EXPECT_EQ(service_.ends, std::vector{WorkerEnd::kFailed}) << body;
  }
  const std::string session = join();
  EXPECT_FALSE(say(session, {1, {WorkerHello{}}}).ok()) << "it has said hello";
  EXPECT_TRUE(service_.said.empty());
}

TEST_F(RemoteWorkersTest, ASessionIsItsOwners) {
  const std::string session = join();
  EXPECT_EQ(poll(session, 0, "another").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(workers_->say("another", session, encode(WorkerBatch{1, {WorkerBeat{}}})).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(workers_->say("another", session, "nonsense").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(workers_->end("another", session, WorkerEnd::kAsked).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(service_.ends.empty());
  EXPECT_TRUE(say(session, {1, {WorkerBeat{}}}).ok());
  EXPECT_TRUE(workers_->end("worker-1", session, WorkerEnd::kKilled).ok());
  EXPECT_EQ(service_.ends, std::vector{WorkerEnd::kKilled});
}

TEST_F(RemoteWorkersTest, AnAnswerAfterTheSessionIsCountedAndNobodys) {
  const std::string session = join();
  service_.links.clear();
  EXPECT_EQ(say(session, {1, {WorkerBeat{}, WorkerAnswer{1, std::nullopt, {}}}}).error().code,
            ErrorCode::kNotFound);
  ASSERT_EQ(service_.said.size(), 1u);
  EXPECT_EQ(service_.said[0].first, "") << "no worker has that name";
}

TEST_F(RemoteWorkersTest, AnotherKindIsRefusedInWords) {
  const auto version = workers_->join("worker-1", make_join("cpu", "2"));
  ASSERT_FALSE(version.ok());
  EXPECT_EQ(version.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(version.error().message, HasSubstr("version 1 of the gym"));
  const auto device = workers_->join("worker-1", make_join("cuda"));
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.error().message, HasSubstr("'cuda'"));
  auto other = make_join();
  other.hello.protocol = kWorkerProtocol + 1;
  EXPECT_FALSE(workers_->join("worker-1", other).ok());
  EXPECT_TRUE(service_.names.empty());
}

TEST_F(RemoteWorkersTest, SilenceIsNoFaultOfWhatWasInHand) {
  (void)join();
  EXPECT_EQ(service_.links.at(0)->when_silent(), WorkerEnd::kKilled);
  service_.links.at(0)->end();
  service_.links.at(0)->end();
  EXPECT_EQ(service_.ends, std::vector{WorkerEnd::kFailed}) << "once";
}

TEST(RemoteMessage, BothSidesUnderstandEachOther) {
  const WorkerJoin join{"a/cuda:0", {.kind = {"cuda", "5"}, .device_name = "H200", .slots = 6}};
  EXPECT_EQ(parse_join(encode(join))->name, "a/cuda:0");
  EXPECT_EQ(parse_join(encode(join))->hello.kind, (WorkerKind{"cuda", "5"}));
  WorkerAnswer answer{3, Verdict{}, {}};
  answer.verdict->reason = "bound";
  const auto said = parse_worker_batch(encode(WorkerBatch{9, {answer, WorkerLeaves{}}}));
  EXPECT_EQ(said->first, 9);
  EXPECT_EQ(std::get<WorkerAnswer>(said->messages.at(0)).verdict->reason, "bound");
  const auto orders =
      parse_front_batch(encode(FrontBatch{2, {WorkOrder{.lease = 4, .candidate = "\"x\"\n"}}}));
  EXPECT_EQ(std::get<WorkOrder>(orders->messages.at(0)).candidate, "\"x\"\n");
}

TEST(RemoteMessage, WhatIsWrongIsNamed) {
  const auto refused = [](const WorkerJoin& join, const std::string& part) {
    const auto parsed = parse_join(encode(join));
    ASSERT_FALSE(parsed.ok());
    EXPECT_THAT(parsed.error().message, HasSubstr(part));
  };
  refused({"", {}}, "worker.name");
  refused({"a b", {}}, "worker.name");
  refused({std::string(200, 'a'), {}}, "worker.name");
  refused({"a", {.slots = 0}}, "slots");
  refused({"a", {.slots = 1 << 20}}, "slots");
  EXPECT_FALSE(parse_join(R"({"name":"a","hello":{"type":"beat","busy_seconds":1}})").ok());
  EXPECT_FALSE(parse_join(std::string(100, '[') + std::string(100, ']')).ok());
}

}  // namespace
}  // namespace lathe::serve
