#include "serve/client/remote_gym.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "baseline/baseline.h"
#include "gym/version.h"
#include "record/json.h"
#include "serve/tokens.h"
#include "tests/serve/service_here.h"

namespace lathe::serve {
namespace {

using testing::HasSubstr;

std::string candidate(const std::string& tail) {
  return "/*lathe\n[[launch]]\nkernel = \"k\"\nitems = \"n\"\nargs = [\"x\", \"y\"]\n*/\n// " + tail;
}

DeviceRecord box() {
  return {.device = {.kind = "cpu", .name = "box", .lanes = 3, .facts = {{"l2_bytes", 1 << 20}}},
          .peaks = {.flops_per_second = 1e9, .levels = {{"memory", 1e18, 1e9}}}};
}

class RemoteGymTest : public testing::Test, public ServiceHere {
 protected:
  RemoteGymTest() { tell_device(); }
  ~RemoteGymTest() override { stop(); }  // while judge_ can still be called

  void tell_device() { service_->worker_said("w", WorkerDevice{box()}); }
  RemoteGymOptions options() const {
    return {
        .url = "http://127.0.0.1:" + std::to_string(port()), .patience_seconds = 20, .silence_seconds = 0.3};
  }
  std::unique_ptr<RemoteGym> connected(const RemoteGymOptions& options) {
    auto gym = RemoteGym::connect(options, null_sink(), {});
    EXPECT_TRUE(gym.ok()) << gym.error().to_string();
    return *std::move(gym);
  }
  EvaluationRequest request(const std::string& text, Depth depth = Depth::kVerify) const {
    return {.task = task_, .text = text, .depth = depth};
  }
  static Evaluated next(Evaluator& evaluator) {
    auto evaluated = evaluator.poll(20);
    EXPECT_TRUE(evaluated.has_value());
    return evaluated ? *std::move(evaluated) : Evaluated{0, Error{}};
  }

  const std::shared_ptr<const TaskSpec> task_ =
      std::make_shared<const TaskSpec>(parse_task(kTinyTask, "tiny").value());
};

TEST_F(RemoteGymTest, GivesTheServicesVerdictOnATextOfATaskThatItHasNotSeen) {
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  const auto other =
      std::make_shared<const TaskSpec>(parse_task(std::string(kTinyTask) + "# mine", "t").value());
  const Ticket ticket =
      evaluator->submit({.task = other, .text = candidate("a"), .depth = Depth::kVerify}).value();
  EXPECT_EQ(evaluator->in_flight(), 1);
  const Evaluated evaluated = next(*evaluator);
  EXPECT_EQ(evaluated.ticket, ticket);
  ASSERT_TRUE(evaluated.verdict.ok()) << evaluated.verdict.error().to_string();
  EXPECT_EQ(evaluated.verdict->outcome, Outcome::kPass);
  EXPECT_EQ(evaluated.verdict->candidate, digest_of(candidate("a")));
  EXPECT_EQ(evaluated.verdict->task, other->digest);
  EXPECT_EQ(evaluator->in_flight(), 0);
  EXPECT_FALSE(evaluator->poll(0).has_value());
}

TEST_F(RemoteGymTest, KnowsTheDeviceOnceAWorkerHasMeasuredIt) {
  start({});
  std::thread late([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    tell_device();
  });
  const auto gym = connected(options());
  late.join();
  EXPECT_EQ(gym->device().device.name, "box");
  EXPECT_EQ(gym->device().device.lanes, 3);
  EXPECT_EQ(gym->device().device.facts.at("l2_bytes"), 1 << 20);
  EXPECT_EQ(gym->device().peaks.levels.front().bytes_per_second, 1e9);
}

TEST_F(RemoteGymTest, ATextThatIsNoCandidateIsNotSent) {
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  ASSERT_TRUE(evaluator->submit(request("no candidate")).ok());
  const Evaluated evaluated = next(*evaluator);
  ASSERT_TRUE(evaluated.verdict.ok());
  EXPECT_EQ(evaluated.verdict->outcome, Outcome::kBuildFailed);
  EXPECT_EQ(evaluated.verdict->reason, "bad_candidate");
  EvaluationRequest refused = request(candidate("fine"));
  refused.unreadable = invalid("the author says so");
  ASSERT_TRUE(evaluator->submit(refused).ok());
  EXPECT_THAT(next(*evaluator).verdict->detail, HasSubstr("the author says so"));
  ASSERT_TRUE(evaluator->submit(request(candidate("not UTF-8: \xff"))).ok());
  EXPECT_THAT(next(*evaluator).verdict->detail, HasSubstr("not UTF-8"));
  EXPECT_EQ(orders_, 0);
}

TEST_F(RemoteGymTest, EachOfManyGetsItsOwnAnswerHoweverFullTheServiceIs) {
  stop();
  max_unfinished_ = 3;
  start({});
  tell_device();
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  constexpr int kMany = 40;
  std::map<Ticket, Digest> expected;
  for (int i = 0; i < kMany; ++i) {
    const std::string text = candidate(std::to_string(i % (kMany / 2)));  // every text twice
    expected[evaluator->submit(request(text)).value()] = digest_of(text);
  }
  for (int i = 0; i < kMany; ++i) {
    const Evaluated evaluated = next(*evaluator);
    ASSERT_TRUE(evaluated.verdict.ok()) << evaluated.verdict.error().to_string();
    EXPECT_EQ(evaluated.verdict->candidate, expected.at(evaluated.ticket));
    expected.erase(evaluated.ticket);
  }
  EXPECT_EQ(orders_, kMany / 2) << "an answer is for good";
}

TEST_F(RemoteGymTest, ItsOwnLimitPushesBack) {
  RemoteGymOptions few = options();
  few.most_unfinished = 1;
  const auto gym = connected(few);
  const auto evaluator = gym->connect_client();
  ASSERT_TRUE(evaluator->submit(request(candidate("wait"))).ok());
  EXPECT_EQ(evaluator->submit(request(candidate("b"))).error().code, ErrorCode::kBusy);
}

TEST_F(RemoteGymTest, AClientThatComesLaterHearsOnlyOfItsOwn) {
  const auto gym = connected(options());
  {
    const auto first = gym->connect_client();
    for (int i = 0; i < 300; ++i) (void)first->submit(request(candidate(std::to_string(i))));
    while (first->in_flight() > 0) (void)first->poll(5);
  }
  const auto second = gym->connect_client();
  const Ticket ticket = second->submit(request(candidate("new"))).value();
  EXPECT_EQ(next(*second).ticket, ticket);
  EXPECT_FALSE(second->poll(0.5).has_value());
}

TEST_F(RemoteGymTest, CancellationAndDeadlinesReachTheWorker) {
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  EvaluationRequest cancelled = request(candidate("1 wait")), late = request(candidate("2 wait"));
  late.deadline_seconds = 0.5;
  ASSERT_TRUE(evaluator->submit(cancelled).ok());
  while (orders_ == 0) std::this_thread::yield();
  cancelled.cancel.cancel();
  EXPECT_EQ(next(*evaluator).verdict.error().code, ErrorCode::kCancelled);
  ASSERT_TRUE(evaluator->submit(late).ok());
  EXPECT_EQ(next(*evaluator).verdict.error().code, ErrorCode::kTimeout);
  while (cancels_ < 2) std::this_thread::yield();
}

TEST_F(RemoteGymTest, WhatIsUnderWayWhenAClientEndsIsWithdrawn) {
  const auto gym = connected(options());
  {
    const auto evaluator = gym->connect_client();
    ASSERT_TRUE(evaluator->submit(request(candidate("wait"))).ok());
    while (orders_ == 0) std::this_thread::yield();
  }
  while (cancels_ == 0) std::this_thread::yield();
}

TEST_F(RemoteGymTest, ARestartOfTheServiceCostsNothing) {
  const int same_port = port();
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  ASSERT_TRUE(evaluator->submit(request(candidate("wait"))).ok());
  while (orders_ == 0) std::this_thread::yield();
  stop();
  judge_ = [](const WorkOrder&) {
    Verdict verdict;
    verdict.outcome = Outcome::kPass;
    return std::optional(verdict);
  };
  ASSERT_TRUE(evaluator->submit(request(candidate("asked while it was down"))).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  start({}, true, same_port);
  for (int i = 0; i < 2; ++i) {
    const Evaluated evaluated = next(*evaluator);
    ASSERT_TRUE(evaluated.verdict.ok()) << evaluated.verdict.error().to_string();
    EXPECT_EQ(evaluated.verdict->outcome, Outcome::kPass);
  }
}

TEST_F(RemoteGymTest, WhatTheServiceHasForgottenIsAskedForAgain) {
  const int same_port = port();
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  ASSERT_TRUE(evaluator->submit(request(candidate("wait"))).ok());
  while (orders_ == 0) std::this_thread::yield();
  stop();
  for (const char* file : {"/serve.db", "/serve.db-wal", "/serve.db-shm"})
    std::remove((folder_.path() + file).c_str());
  judge_ = [](const WorkOrder&) { return std::optional(Verdict{.outcome = Outcome::kWrong}); };
  start({}, true, same_port);
  EXPECT_EQ(next(*evaluator).verdict.value().outcome, Outcome::kWrong);
}

TEST_F(RemoteGymTest, WhatAnotherProcessCancelsIsAskedForAgain) {
  const std::string text = candidate("shared");
  judge_ = [this](const WorkOrder& order) {
    return orders_ == 1 ? std::nullopt : pass_unless_told_to_wait(order);
  };
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  ASSERT_TRUE(evaluator->submit(request(text)).ok());
  while (orders_ == 0) std::this_thread::yield();
  const EvaluationKey key{task_->digest, digest_of(text), Depth::kVerify, "cpu", kGymVersion};
  service_->cancel("local", key.id(), [](const Result<bool>& done) { EXPECT_TRUE(done.ok() && *done); });
  const Evaluated evaluated = next(*evaluator);
  ASSERT_TRUE(evaluated.verdict.ok()) << evaluated.verdict.error().to_string();
  EXPECT_EQ(evaluated.verdict->outcome, Outcome::kPass);
  EXPECT_EQ(orders_, 2);
}

TEST_F(RemoteGymTest, WhatAnUpdateOfTheServiceHasEndedIsAskedForAgain) {
  std::atomic<std::int64_t> lease = 0;
  judge_ = [&](const WorkOrder& order) {
    if (orders_ > 1) return pass_unless_told_to_wait(order);
    lease = order.lease;
    return std::optional<Verdict>();
  };
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  ASSERT_TRUE(evaluator->submit(request(candidate("old"))).ok());
  while (lease == 0) std::this_thread::yield();
  service_->worker_said("w", WorkerAnswer{lease, std::nullopt, invalid(kOutdated)});
  const Evaluated evaluated = next(*evaluator);
  ASSERT_TRUE(evaluated.verdict.ok()) << evaluated.verdict.error().to_string();
  EXPECT_EQ(evaluated.verdict->outcome, Outcome::kPass);
}

TEST_F(RemoteGymTest, BaselinesAreThoseBesideTheNaiveBuild) {
  const std::string naive = naive_candidate(*task_).value().text;
  judge_ = [naive](const WorkOrder& order) -> std::optional<Verdict> {
    if (order.candidate != naive) return std::nullopt;
    Verdict verdict;
    verdict.outcome = Outcome::kPass;
    verdict.timings = {{.shape = "a", .median_ns = 100}, {.shape = "b", .median_ns = 400}};
    for (const char* shape : {"a", "b"}) {
      verdict.speedups.push_back({"naive", shape, {0.9, 1.01, 1.1}});
      verdict.speedups.push_back({"fast", shape, {0.2, 0.25, 0.3}});
    }
    return verdict;
  };
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  evaluator->prepare(task_);
  const TaskBaselines baselines = evaluator->baselines(task_, {}).value();
  ASSERT_EQ(baselines.times.size(), 2U);
  EXPECT_EQ(baselines.times[0].name, "naive");
  EXPECT_DOUBLE_EQ(baselines.times[0].median_ns, 200);
  EXPECT_EQ(baselines.best, "fast");
  EXPECT_DOUBLE_EQ(baselines.times[1].median_ns, 50);
  EXPECT_DOUBLE_EQ(baselines.times[1].timings[1].median_ns, 100);
  EXPECT_EQ(orders_, 1);
}

TEST_F(RemoteGymTest, ANaiveBuildThatFailsIsAnErrorAndIsTriedAgain) {
  std::atomic<bool> works = false;
  judge_ = [&works](const WorkOrder&) {
    Verdict verdict;
    verdict.outcome = works ? Outcome::kPass : Outcome::kInfra;
    verdict.reason = "no room";
    verdict.timings = {{.shape = "a", .median_ns = 100}};
    return std::optional(verdict);
  };
  const auto gym = connected(options());
  const auto evaluator = gym->connect_client();
  EXPECT_THAT(evaluator->baselines(task_, {}).error().message, HasSubstr("no room"));
  EXPECT_EQ(orders_, 3);
  works = true;
  EXPECT_EQ(evaluator->baselines(task_, {}).value().best, "naive");
}

TEST_F(RemoteGymTest, ATokenIsAskedForAndSaidToBeWrong) {
  const auto store = *TokenStore::open(folder_.path());
  const std::string token = store->add({"trainer", Role::kSubmit, 100}).value();
  api_->set_tokens(Tokens(store->list().value()));
  const auto refused = RemoteGym::connect(options(), null_sink(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().hint, HasSubstr("LATHE_TOKEN"));
  RemoteGymOptions known = options();
  known.token = token + "\n";  // as a file has it
  const auto gym = connected(known);
  const auto evaluator = gym->connect_client();
  ASSERT_TRUE(evaluator->submit(request(candidate("a"))).ok());
  EXPECT_TRUE(next(*evaluator).verdict.ok());
}

TEST_F(RemoteGymTest, WhereNobodyAnswersAnErrorSaysSo) {
  RemoteGymOptions hasty = options();
  hasty.patience_seconds = 0.5;
  const auto gym = connected(hasty);
  const auto evaluator = gym->connect_client();
  stop();
  ASSERT_TRUE(evaluator->submit(request(candidate("a"))).ok());
  EXPECT_EQ(next(*evaluator).verdict.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(RemoteGym::connect(hasty, null_sink(), {}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(RemoteGym::connect({.url = "ftp://x"}, null_sink(), {}).error().code, ErrorCode::kInvalid);
  const CancelToken stopped;
  stopped.cancel();
  EXPECT_EQ(RemoteGym::connect(hasty, null_sink(), stopped).error().code, ErrorCode::kCancelled);
}

/// A server that is no lathe serve.
TEST(StrangeService, IsAnErrorWhateverItSays) {
  for (const std::string body :
       {"", "[]", "null", "{", "{\"device\": 1}", "{\"items\": [1]}", "{\"items\": 3}"}) {
    const HttpHandler handler{
        .admit = [](const HttpRequest&) { return std::optional<HttpResponse>(); },
        .handle =
            [&body](const HttpRequest& request, const Respond& respond) {
              const bool device = request.path == "/v1/device" && body.starts_with("{\"items");
              const std::string record = json_text({{"device", to_json(box())}});
              respond({.body = request.path == "/healthz" ? "{}" : device ? record : body});
            },
        .fault = [](int status, const std::string&) { return HttpResponse{.status = status}; }};
    const auto server = *HttpServer::start("127.0.0.1", 0, {}, handler);
    const RemoteGymOptions options{.url = "http://127.0.0.1:" + std::to_string(server->port()),
                                   .patience_seconds = 1};
    auto gym = RemoteGym::connect(options, null_sink(), {});
    if (gym.ok()) {
      const auto task = std::make_shared<const TaskSpec>(parse_task(kTinyTask, "tiny").value());
      const auto evaluator = (*gym)->connect_client();
      ASSERT_TRUE(evaluator->submit({.task = task, .text = candidate("a")}).ok());
      const auto evaluated = evaluator->poll(20);
      ASSERT_TRUE(evaluated.has_value()) << body;
      EXPECT_FALSE(evaluated->verdict.ok()) << body;
    }
    server->stop();
  }
}

}  // namespace
}  // namespace lathe::serve
