#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/digest.h"
#include "base/random.h"
#include "bench/serve/http_client.h"
#include "bench/serve/servers.h"
#include "tests/serve/submission.h"

// Two `lathe serve` with fake workers, Redis and PostgreSQL, each of which is killed.
namespace lathe::serve {
namespace {

using nlohmann::json;

class FrontEndsTest : public ProgramTest {
 protected:
  FrontEndsTest() {
    auto redis = RedisServer::start(path("redis"), true);
    auto postgres = PostgresServer::start(path("postgres"));
    if (!redis.ok() || !postgres.ok()) std::abort();
    redis_.emplace(*std::move(redis));
    postgres_.emplace(*std::move(postgres));
    for (std::size_t i = 0; i < 2; ++i) ports_[i] = free_port();
  }

  ~FrontEndsTest() override { ::unsetenv("LATHE_FAKE_GYM_VERSION"); }

  void start(std::size_t index, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"serve",         "--port",      std::to_string(ports_[index]),
                                     "--queue",       redis_->url(), "--store",
                                     postgres_->url()};
    args.insert(args.end(), device_.begin(), device_.end());
    args.insert(args.end(), more.begin(), more.end());
    fronts_[index] = std::make_unique<Program>(folder_, args);
    ASSERT_TRUE(eventually(30, [&] {
      const auto answer = HttpClient(ports_[index]).get("/readyz");
      return answer.ok() && answer->status == 200;
    })) << fronts_[index]->err();
  }

  /// Submitted at either until one takes it.
  std::string submit(const std::string& text) {
    std::string id;
    EXPECT_TRUE(eventually(60, [&] {
      const auto answer = HttpClient(ports_[turn_++ % 2]).post("/v1/evaluations", submission(text));
      if (!answer.ok() || answer->status >= 400) return false;
      id = json::parse(answer->body)["id"];
      return true;
    }));
    return id;
  }

  json until_done(const std::string& id, double seconds) {
    json last;
    eventually(seconds, [&] {
      const auto answer = HttpClient(ports_[turn_++ % 2]).get("/v1/evaluations/" + id + "?wait=1");
      if (!answer.ok() || answer->status != 200) return false;
      last = json::parse(answer->body);
      return last["state"] == "done" || last["state"] == "cancelled" || last["state"] == "expired";
    });
    return last;
  }

  /// Every text has its own verdict, once.
  void expect_answers(const std::vector<std::string>& texts, const std::vector<std::string>& ids) {
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(until_done(ids[i], 60)["verdict"]["reason"], digest_of(texts[i]).short_hex()) << texts[i];
    std::set<std::string> seen;
    const json all = json::parse(HttpClient(ports_[0]).get("/v1/evaluations?limit=1000")->body);
    for (const json& item : all["items"]) EXPECT_TRUE(seen.insert(item["id"].get<std::string>()).second);
    EXPECT_EQ(seen.size(), texts.size());
  }

  std::optional<RedisServer> redis_;
  std::optional<PostgresServer> postgres_;
  std::vector<std::string> device_ = {"--device", "cpu", "--worker-program", FAKE_WORKER, "--workers", "3"};
  int ports_[2] = {};
  std::unique_ptr<Program> fronts_[2];
  std::size_t turn_ = 0;
};

TEST_F(FrontEndsTest, WhoeverHasItAnswersAndWhoeverIsAskedKnows) {
  start(0);
  start(1);
  std::vector<std::string> texts, ids;
  for (int i = 0; i < 60; ++i)
    ids.push_back(submit(texts.emplace_back("text " + std::to_string(i) + " sleep=0.01")));
  expect_answers(texts, ids);
  const std::string slow =
      json::parse(HttpClient(ports_[0]).post("/v1/evaluations", submission("slow sleep=20"))->body)["id"];
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(HttpClient(ports_[1]).remove("/v1/evaluations/" + slow)->status, 200) << "at the other one";
  EXPECT_EQ(until_done(slow, 5)["state"], "cancelled");
  const auto late =
      HttpClient(ports_[1]).post("/v1/evaluations?wait=30", submission("late sleep=20", kTinyTask, 1));
  EXPECT_EQ(json::parse(late->body)["state"], "expired") << late->body;
  const std::string out = fronts_[0]->err() + fronts_[1]->err();
  EXPECT_EQ(out.find("p@ss"), std::string::npos);
  EXPECT_EQ(out.find("p%40ss"), std::string::npos);
  fronts_[0]->signal(SIGTERM);
  EXPECT_EQ(fronts_[0]->wait(40), 0);
}

TEST_F(FrontEndsTest, EveryProcessKilledAtRandomTimesAndEveryAnswerOnce) {
  start(0);
  start(1);
  Rng rng(Seed::from_number(17));
  std::vector<std::string> texts, ids;
  for (int i = 0; i < 240; ++i) {
    const bool is_time = i % 30 == 29;
    const std::size_t front = rng.below(2);
    if (is_time && i % 120 != 59 && i % 120 != 89) {
      fronts_[front]->signal(SIGKILL);
      fronts_[front]->wait(10);
      start(front);
    } else if (is_time && i % 120 == 59) {
      redis_->kill();
      if (i > 120) std::filesystem::remove_all(path("redis/appendonlydir"));
      ASSERT_TRUE(redis_->restart().ok());
    } else if (is_time) {
      postgres_->kill();
      ASSERT_TRUE(postgres_->restart().ok());
    }
    ids.push_back(submit(texts.emplace_back("candidate " + std::to_string(i) + " sleep=0.01")));
  }
  expect_answers(texts, ids);
}

TEST_F(FrontEndsTest, AKilledFrontEndsWorkIsTheOthersWithinSeconds) {
  start(0);
  const std::string id =
      json::parse(HttpClient(ports_[0]).post("/v1/evaluations", submission("x sleep=3"))->body)["id"];
  start(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  fronts_[0]->signal(SIGKILL);
  fronts_[0]->wait(10);
  const auto begin = std::chrono::steady_clock::now();
  turn_ = 1;
  json last;
  EXPECT_TRUE(eventually(15, [&] {
    last = json::parse(HttpClient(ports_[1]).get("/v1/evaluations/" + id + "?wait=1")->body);
    return last["state"] == "done";
  })) << last;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10))
      << "lease of 4 s, then 3 s of work";
}

TEST_F(FrontEndsTest, AnyFrontEndKnowsATaskIdOfKernelGyms) {
  device_ = {"--device", "host:cpu", "--workers", "none", "--kernelgym"};
  start(0);
  start(1);
  const auto call = [&](const std::string& task_id) {
    const json body = {
        {"task_id", task_id}, {"reference_code", "import torch"}, {"kernel_code", "import torch"}};
    return std::async(std::launch::async, [port = ports_[0], text = body.dump()] {
      const auto answer = HttpClient(port).post("/evaluate", text);
      return answer.ok() ? answer->body : "";
    });
  };
  const auto status = [&](std::size_t front, const std::string& task_id) {
    const auto answer = HttpClient(ports_[front]).get("/status/" + task_id);
    return answer.ok() && answer->status == 200 ? json::parse(answer->body).value("status", "") : "unknown";
  };
  auto a = call("a"), b = call("b");
  EXPECT_TRUE(eventually(10, [&] { return status(1, "a") == "pending" && status(1, "b") == "pending"; }));
  EXPECT_EQ(HttpClient(ports_[1]).get("/results/a")->status, 404) << "no result yet";
  EXPECT_EQ(HttpClient(ports_[1]).remove("/tasks/b")->status, 200) << "at the other one";
  EXPECT_EQ(b.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(status(0, "b"), "failed");
  EXPECT_EQ(status(0, "a"), "pending") << "its evaluation is wanted";
  fronts_[0]->signal(SIGKILL);
  fronts_[0]->wait(10);
  EXPECT_EQ(a.get(), "");
  EXPECT_THAT(b.get(), testing::HasSubstr("cancelled"));
  EXPECT_EQ(status(1, "a"), "pending");
  EXPECT_EQ(HttpClient(ports_[1]).remove("/tasks/a")->status, 200);
  EXPECT_EQ(status(1, "a"), "failed");
}

TEST_F(FrontEndsTest, ACandidateThatEndsItsWorkersIsAVerdict) {
  start(0);
  start(1);
  const std::string deadly = submit("fault"), fine = submit("fine sleep=0.05");
  EXPECT_EQ(until_done(deadly, 60)["verdict"]["reason"], "worker_killed");
  EXPECT_NE(until_done(fine, 60)["verdict"]["reason"], "worker_killed");
}

TEST_F(FrontEndsTest, DuringAnUpdateEachVersionTakesOnlyWhatItMay) {
  const auto start_version = [&](std::size_t index, const char* version, const char* of_workers) {
    ::setenv("LATHE_FAKE_GYM_VERSION", of_workers, 1);
    start(index, {"--gym-version", version});
  };
  const auto ask = [&](std::size_t front, const std::string& text) {
    const auto answer = HttpClient(ports_[front]).post("/v1/evaluations", submission(text));
    return json::parse(answer->body).value("id", answer->body);
  };
  const auto evaluated_by = [&](const std::string& id) {
    EXPECT_EQ(until_done(id, 60)["state"], "done");
    const auto evidence = HttpClient(ports_[turn_++ % 2]).get("/v1/evaluations/" + id + "/evidence");
    return json::parse(evidence->body)["verdict"]["provenance"].value("gym_version", "");
  };
  start_version(0, "old", "old");
  start_version(1, "new", "new");
  std::vector<std::pair<std::string, std::string>> ids;
  for (int i = 0; i < 30; ++i) {
    const std::string text = "text " + std::to_string(i) + " sleep=0.01";
    ids.emplace_back(ask(0, text), "old");
    ids.emplace_back(ask(1, text), "new");
    EXPECT_NE(ids[ids.size() - 2].first, ids.back().first) << "each version has a verdict of its own";
  }
  for (const auto& [id, version] : ids) EXPECT_EQ(evaluated_by(id), version);

  const auto worker_of = [&](const char* version, std::size_t front) {
    ::setenv("LATHE_FAKE_GYM_VERSION", version, 1);
    return std::make_unique<Program>(
        folder_,
        std::vector<std::string>{"worker", "--front-end", "http://127.0.0.1:" + std::to_string(ports_[front]),
                                 "--device", "cpu", "--worker-program", FAKE_WORKER});
  };
  for (const auto& [version, front, other] :
       {std::tuple("old", std::size_t{1}, "new"), std::tuple("new", std::size_t{0}, "old")}) {
    const auto refused = worker_of(version, front);
    EXPECT_EQ(WEXITSTATUS(refused->wait(30)), 4);
    EXPECT_THAT(refused->err(), testing::HasSubstr(std::string("version ") + other + " of the gym"));
    EXPECT_THAT(refused->err(), testing::HasSubstr(std::string("the worker ") + version));
    const auto taken = worker_of(version, 1 - front);
    EXPECT_TRUE(eventually(30, [&] { return taken->err().find("worker.joined") != std::string::npos; }))
        << taken->err();
  }

  // The last front end of the old version goes, with more than it can finish.
  std::vector<std::string> last;
  for (int i = 0; i < 40; ++i) last.push_back(ask(0, "last " + std::to_string(i) + " sleep=0.3"));
  fronts_[0]->signal(SIGTERM);
  EXPECT_EQ(fronts_[0]->wait(40), 0);
  std::map<std::string, int> states;
  for (const std::string& id : last) {
    json answer;
    EXPECT_TRUE(eventually(30, [&] {
      answer = json::parse(HttpClient(ports_[1]).get("/v1/evaluations/" + id + "?wait=1")->body);
      return answer["state"] == "done" || answer["state"] == "failed";
    })) << answer;
    ++states[answer["state"]];
    EXPECT_EQ(answer["gym_version"], "old") << answer;
    EXPECT_EQ(answer.contains("error"), answer["state"] == "failed") << answer;
  }
  EXPECT_GT(states["done"], 0) << "what was in hand";
  EXPECT_GT(states["failed"], 0) << "what nobody is left to answer";

  // One whose workers are those of an installation before gives them nothing that they may not
  // have.
  start_version(0, "new", "old");
  ids.clear();
  for (int i = 0; i < 20; ++i) ids.emplace_back(ask(0, "again " + std::to_string(i) + " sleep=0.01"), "new");
  for (const auto& [id, version] : ids) EXPECT_EQ(evaluated_by(id), version);
}

TEST_F(FrontEndsTest, QueueAndStoreGoTogetherAndErrorsHaveNoPassword) {
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"serve", "--queue", redis_->url()},
           {"serve", "--store", postgres_->url()},
           {"serve", "--queue", "redis://:secret@127.0.0.1:1", "--store", postgres_->url()},
           {"serve", "--queue", redis_->url(), "--store", "postgres://lathe:secret@127.0.0.1:1/x"}}) {
    Program program(folder_, args);
    EXPECT_NE(program.wait(20), 0);
    EXPECT_NE(program.err().find("hint"), std::string::npos) << program.err();
    EXPECT_EQ(program.err().find("secret"), std::string::npos) << program.err();
  }
}

}  // namespace
}  // namespace lathe::serve
