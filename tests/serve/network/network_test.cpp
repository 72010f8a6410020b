#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/digest.h"
#include "base/random.h"
#include "bench/serve/http_client.h"
#include "bench/serve/servers.h"
#include "tests/serve/network/relay.h"
#include "tests/serve/network/two_networks.h"
#include "tests/serve/submission.h"

// Networks that are slow, cut or silent, between a worker and its front end, and between front
// ends, Redis and PostgreSQL.
namespace lathe::serve {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

double seconds_of(const std::function<void()>& act) {
  const auto begin = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string reason_of(const std::string& text) { return digest_of(text).short_hex(); }

class NetworkTest : public ProgramTest {
 protected:
  ~NetworkTest() override { ::unsetenv("LATHE_TOKEN"); }

  std::unique_ptr<Program> serve(int port, std::vector<std::string> more) {
    std::vector<std::string> args = {"serve", "--port", std::to_string(port), "--device", "cpu"};
    args.insert(args.end(), more.begin(), more.end());
    return std::make_unique<Program>(folder_, args);
  }
  std::unique_ptr<Program> worker(const std::string& front_end) {
    return std::make_unique<Program>(
        folder_, std::vector<std::string>{"worker", "--front-end", front_end, "--device", "cpu",
                                          "--worker-program", FAKE_WORKER});
  }

  int ready(int port) {
    const auto answer = client(port).get("/readyz");
    return answer.ok() ? answer->status : 0;
  }

  /// Until one of the ports takes it.
  std::string submit(const std::vector<int>& ports, const std::string& text) {
    std::string id;
    EXPECT_TRUE(eventually(90, [&] {
      const auto answer = client(ports[turn_++ % ports.size()]).post("/v1/evaluations", submission(text));
      if (!answer.ok() || answer->status >= 400) return false;
      id = json::parse(answer->body)["id"];
      return true;
    })) << text;
    return id;
  }

  std::string reason(const std::vector<int>& ports, const std::string& id, double seconds) {
    json last;
    eventually(seconds, [&] {
      const auto answer = client(ports[turn_++ % ports.size()]).get("/v1/evaluations/" + id + "?wait=1");
      if (!answer.ok() || answer->status != 200) return false;
      last = json::parse(answer->body);
      return last["state"] == "done";
    });
    return last.contains("verdict") ? last["verdict"]["reason"].get<std::string>() : last.dump();
  }

  std::string state(int port, const std::string& id) {
    const auto answer = client(port).get("/v1/evaluations/" + id);
    return answer.ok() && answer->status < 400 ? json::parse(answer->body)["state"].get<std::string>() : "";
  }

  /// Each text has its own verdict, once, and there are no others.
  void expect_each_once(const std::vector<int>& ports, const std::vector<std::string>& texts,
                        const std::vector<std::string>& ids) {
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(reason(ports, ids[i], 90), reason_of(texts[i])) << texts[i];
    std::set<std::string> seen;
    std::set<std::int64_t> numbers;
    const json all = json::parse(client(ports[0]).get("/v1/evaluations?limit=1000")->body);
    for (const json& item : all["items"]) {
      EXPECT_TRUE(seen.insert(item["id"].get<std::string>()).second) << item;
      EXPECT_TRUE(numbers.insert(item["sequence"].get<std::int64_t>()).second) << item;
    }
    EXPECT_EQ(seen.size(), texts.size());
  }

  double metric(int port, const std::string& name) {
    const auto page = client(port).get("/metrics");
    if (!page.ok()) return -1;
    const std::size_t at = page->body.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::atof(page->body.c_str() + at + name.size() + 2);
  }

  HttpClient client(int port) const { return HttpClient(port, token_); }

  std::string token_;
  std::size_t turn_ = 0;
};

TEST_F(NetworkTest, WorkersBehindNetworksThatDelayCutAndFallSilentGiveEachAnswerOnce) {
  const int port = free_port();
  const auto front = serve(port, {"--workers", "none"});
  ASSERT_TRUE(eventually(30, [&] { return client(port).get("/healthz").ok(); })) << front->err();
  std::vector<std::unique_ptr<Relay>> relays;
  std::vector<std::unique_ptr<Program>> workers;
  for (std::uint64_t i = 0; i < 3; ++i) {
    relays.push_back(std::make_unique<Relay>(port, Seed::from_number(100 + i)));
    workers.push_back(worker(fmt::format("http://127.0.0.1:{}", relays[i]->port())));
  }
  ASSERT_TRUE(eventually(30, [&] { return ready(port) == 200; }));
  for (const auto& relay : relays) relay->set({.longest_delay_seconds = 0.03, .cut = 0.03, .silence = 0.004});
  std::vector<std::string> texts, ids;
  for (int i = 0; i < 300; ++i)
    ids.push_back(submit({port}, texts.emplace_back(fmt::format("candidate {} sleep=0.01", i))));
  expect_each_once({port}, texts, ids);
  int faults = 0;
  for (const auto& relay : relays) faults += relay->faults();
  EXPECT_GE(faults, 20);
  EXPECT_EQ(metric(port, "lathe_answers_refused_total"), 0);
  EXPECT_THAT(workers[0]->err(), HasSubstr("worker.cut_off"));
}

TEST_F(NetworkTest, AWorkerWhoseNetworkIsSilentBeyondItsLeaseCostsSeconds) {
  const int port = free_port();
  const auto front = serve(port, {"--workers", "none"});
  ASSERT_TRUE(eventually(30, [&] { return client(port).get("/healthz").ok(); })) << front->err();
  Relay relay(port, Seed::from_number(1));
  const auto first = worker(fmt::format("http://127.0.0.1:{}", relay.port()));
  ASSERT_TRUE(eventually(30, [&] { return ready(port) == 200; }));
  const std::string brief = submit({port}, "brief sleep=1");
  ASSERT_TRUE(eventually(10, [&] { return state(port, brief) == "running"; }));
  relay.hold(true);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  relay.hold(false);
  EXPECT_EQ(reason({port}, brief, 5), reason_of("brief sleep=1"));
  EXPECT_EQ(metric(port, "lathe_workers_lost_total"), 0) << "the lease was not over";

  const std::string id = submit({port}, "text sleep=2");
  ASSERT_TRUE(eventually(10, [&] { return state(port, id) == "running"; }));
  const auto second = worker(fmt::format("http://127.0.0.1:{}", port));
  ASSERT_TRUE(eventually(20, [&] { return second->err().find("worker.joined") != std::string::npos; }));
  relay.hold(true);
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(reason({port}, id, 30), reason_of("text sleep=2")); }), 10)
      << "5 s, then 2 s of work";
  relay.hold(false);
  EXPECT_TRUE(eventually(15, [&] { return first->err().find("worker.session_over") != std::string::npos; }))
      << first->err();
  second->signal(SIGKILL);
  second->wait(10);
  expect_each_once({port}, {"brief sleep=1", "text sleep=2", "another"},
                   {brief, id, submit({port}, "another")});
}

/// Two front ends, each with networks of its own to Redis and PostgreSQL.
class BadNetworkTest : public NetworkTest {
 protected:
  BadNetworkTest() {
    auto redis = RedisServer::start(path("redis"), true, "secret");
    auto postgres = PostgresServer::start(path("postgres"));
    if (!redis.ok() || !postgres.ok()) std::abort();
    redis_.emplace(*std::move(redis));
    postgres_.emplace(*std::move(postgres));
    for (std::size_t i = 0; i < 2; ++i) {
      to_redis_[i] = std::make_unique<Relay>(redis_->port(), Seed::from_number(10 + i));
      to_postgres_[i] = std::make_unique<Relay>(postgres_->port(), Seed::from_number(20 + i));
      ports_.push_back(free_port());
      fronts_[i] = serve(ports_[i], {"--queue", redis_->url(kLoopback, to_redis_[i]->port()), "--store",
                                     postgres_->url("postgres", kLoopback, to_postgres_[i]->port()),
                                     "--worker-program", FAKE_WORKER, "--workers", "2"});
    }
    for (const int port : ports_)
      EXPECT_TRUE(eventually(60, [&] { return ready(port) == 200; })) << fronts_[0]->err();
  }

  void expect_no_passwords() {
    for (const auto& front : fronts_)
      for (const char* const secret : {"secret", "p@ss", "p%40ss"})
        EXPECT_THAT(front->err(), Not(HasSubstr(secret)));
  }

  std::optional<RedisServer> redis_;
  std::optional<PostgresServer> postgres_;
  std::unique_ptr<Relay> to_redis_[2], to_postgres_[2];
  std::vector<int> ports_;
  std::unique_ptr<Program> fronts_[2];
};

TEST_F(BadNetworkTest, DelaysCutsAndSilencesToQueueAndStoreLoseDoubleAndForgeNothing) {
  constexpr RelayFaults kBad{.longest_delay_seconds = 0.005, .cut = 0.005, .silence = 0.001, .most = 12};
  for (std::size_t i = 0; i < 2; ++i) {
    to_redis_[i]->set(kBad);
    to_postgres_[i]->set(kBad);
  }
  std::vector<std::string> texts, ids;
  for (int i = 0; i < 200; ++i)
    ids.push_back(submit(ports_, texts.emplace_back(fmt::format("candidate {} sleep=0.01", i))));
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(reason(ports_, ids[i], 90), reason_of(texts[i])) << texts[i];
  int queue_faults = 0, store_faults = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    queue_faults += to_redis_[i]->faults();
    store_faults += to_postgres_[i]->faults();
    to_redis_[i]->set({});
    to_postgres_[i]->set({});
  }
  EXPECT_GE(queue_faults, 5);
  EXPECT_GE(store_faults, 5);
  for (const int port : ports_) EXPECT_TRUE(eventually(30, [&] { return ready(port) == 200; }));
  expect_each_once(ports_, texts, ids);
  const std::string log = fronts_[0]->err() + fronts_[1]->err();
  EXPECT_THAT(log, HasSubstr("is gone"));
  expect_no_passwords();
}

TEST_F(BadNetworkTest, AFrontEndThatReachesNeitherQueueNorStoreSaysSoAndItsWorkIsTheOthers) {
  std::vector<std::string> texts, ids;
  for (int i = 0; i < 8; ++i)
    ids.push_back(submit({ports_[0]}, texts.emplace_back(fmt::format("candidate {} sleep=1", i))));
  ASSERT_TRUE(eventually(10, [&] { return state(ports_[0], ids[0]) != "queued"; }));
  to_redis_[0]->hold(true);
  to_postgres_[0]->hold(true);
  EXPECT_LT(seconds_of([&] {
              for (std::size_t i = 0; i < ids.size(); ++i)
                EXPECT_EQ(reason({ports_[1]}, ids[i], 40), reason_of(texts[i]));
            }),
            20)
      << "4 s, then 8 s of work for two workers";
  EXPECT_TRUE(eventually(40, [&] { return ready(ports_[0]) == 503; }));
  const auto refused = client(ports_[0]).post(
      "/v1/evaluations", json({{"task", {{"toml", kTinyTask}}}, {"candidate", "late"}}).dump());
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->status, 503) << refused->body;
  EXPECT_THAT(refused->body, Not(HasSubstr("127.0.0.1")));
  to_redis_[0]->hold(false);
  to_postgres_[0]->hold(false);
  EXPECT_TRUE(eventually(30, [&] { return ready(ports_[0]) == 200; })) << fronts_[0]->err();
  ids.push_back(submit({ports_[0]}, texts.emplace_back("late")));
  expect_each_once(ports_, texts, ids);
  EXPECT_THAT(fronts_[0]->err(), HasSubstr("Redis at 127.0.0.1"));
  EXPECT_THAT(fronts_[0]->err(), HasSubstr("PostgreSQL at 127.0.0.1"));
  expect_no_passwords();
}

/// The near network has a front end; what else there is is far away.
class TwoNetworksTest : public NetworkTest {
 protected:
  void SetUp() override {
    auto networks = TwoNetworks::make();
    if (!networks.ok()) GTEST_SKIP() << "no two networks here: " << networks.error().to_string();
    networks_ = *std::move(networks);
  }

  std::string token_of(const std::string& name, const std::string& role) {
    Program add(folder_, {"serve", "token", "add", name, "--role", role});
    EXPECT_EQ(add.wait(20), 0) << add.err();
    return add.out().substr(0, add.out().find('\n'));
  }

  std::unique_ptr<TwoNetworks> networks_;
};

TEST_F(TwoNetworksTest, AWorkerInAnotherNetworkThatIsCutOff) {
  ::setenv("LATHE_TOKEN", token_of("gpu", "worker").c_str(), 1);
  token_ = token_of("trainer", "admin");
  const int port = free_port();
  const auto front = serve(port, {"--address", "0.0.0.0", "--workers", "none"});
  ASSERT_TRUE(eventually(30, [&] { return client(port).get("/healthz").ok(); })) << front->err();
  std::unique_ptr<Program> far;
  networks_->in_far([&] { far = worker(fmt::format("http://{}:{}", TwoNetworks::kNear, port)); });
  ASSERT_TRUE(eventually(30, [&] { return ready(port) == 200; })) << far->err();
  std::vector<std::string> texts = {"brief sleep=1"}, ids = {submit({port}, texts[0])};
  ASSERT_TRUE(eventually(10, [&] { return state(port, ids[0]) == "running"; }));
  ASSERT_TRUE(networks_->cut().ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ASSERT_TRUE(networks_->mend().ok());
  EXPECT_EQ(reason({port}, ids[0], 10), reason_of(texts[0]));
  EXPECT_EQ(metric(port, "lathe_workers_lost_total"), 0) << "the lease was not over";

  ids.push_back(submit({port}, texts.emplace_back("text sleep=2")));
  ASSERT_TRUE(eventually(10, [&] { return state(port, ids[1]) == "running"; }));
  auto near = worker(fmt::format("http://127.0.0.1:{}", port));
  ASSERT_TRUE(eventually(20, [&] { return near->err().find("worker.joined") != std::string::npos; }));
  ASSERT_TRUE(networks_->cut().ok());
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(reason({port}, ids[1], 30), reason_of(texts[1])); }), 10)
      << "5 s, then 2 s of work";
  EXPECT_TRUE(eventually(10, [&] { return far->err().find("worker.cut_off") != std::string::npos; }));
  ASSERT_TRUE(networks_->mend().ok());
  near->signal(SIGKILL);
  near->wait(10);
  if (const Status slow = networks_->delay("delay 40ms 20ms loss 2%"); !slow.ok())
    std::printf("without delays: %s\n", slow.error().to_string().c_str());
  for (int i = 0; i < 20; ++i) ids.push_back(submit({port}, texts.emplace_back(fmt::format("more {}", i))));
  expect_each_once({port}, texts, ids);
  EXPECT_THAT(far->err(), HasSubstr("worker.back"));
}

TEST_F(TwoNetworksTest, AFrontEndCutOffFromQueueStoreAndTheOtherFrontEnd) {
  std::optional<RedisServer> redis;
  std::optional<PostgresServer> postgres;
  std::unique_ptr<Program> near, far;
  const int port = free_port();
  int far_port = 0;
  token_ = "";
  networks_->in_far([&] {
    auto started_redis = RedisServer::start(path("redis"), true, "secret", TwoNetworks::kFar);
    auto started_postgres = PostgresServer::start(path("postgres"), TwoNetworks::kFar);
    ASSERT_TRUE(started_redis.ok() && started_postgres.ok());
    redis.emplace(*std::move(started_redis));
    postgres.emplace(*std::move(started_postgres));
    far_port = free_port();
  });
  ASSERT_TRUE(redis && postgres);
  const std::vector<std::string> shared = {"--queue",       redis->url(),       "--store",
                                           postgres->url(), "--worker-program", FAKE_WORKER};
  near = serve(port, shared);
  ASSERT_TRUE(eventually(60, [&] { return ready(port) == 200; })) << near->err();
  std::vector<std::string> texts, ids;
  for (int i = 0; i < 4; ++i)
    ids.push_back(submit({port}, texts.emplace_back(fmt::format("candidate {} sleep=1", i))));
  ASSERT_TRUE(eventually(10, [&] { return state(port, ids[0]) == "running"; }));
  networks_->in_far([&] {
    far = serve(far_port, shared);
    EXPECT_TRUE(eventually(60, [&] { return ready(far_port) == 200; })) << far->err();
    ids.push_back(submit({far_port}, texts.emplace_back("far sleep=0.1")));
  });
  ASSERT_TRUE(networks_->cut().ok());
  networks_->in_far([&] {
    EXPECT_LT(seconds_of([&] {
                for (std::size_t i = 0; i < ids.size(); ++i)
                  EXPECT_EQ(reason({far_port}, ids[i], 40), reason_of(texts[i]));
              }),
              20)
        << "4 s, then 4 s of work, and a transaction of the lost one that holds the lock for 5 s";
  });
  EXPECT_TRUE(eventually(40, [&] { return ready(port) == 503; })) << near->err();
  ASSERT_TRUE(networks_->mend().ok());
  EXPECT_TRUE(eventually(40, [&] { return ready(port) == 200; })) << near->err();
  ids.push_back(submit({port}, texts.emplace_back("afterwards")));
  expect_each_once({port}, texts, ids);
  EXPECT_THAT(near->err(), HasSubstr("is gone"));
  EXPECT_THAT(near->err(), Not(HasSubstr("p%40ss")));
}

}  // namespace
}  // namespace lathe::serve
