#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/digest.h"
#include "base/random.h"
#include "bench/serve/http_client.h"
#include "bench/serve/servers.h"
#include "tests/serve/submission.h"

// kill -9 of the front end and of workers in each stage of an evaluation's life.
namespace lathe::serve {
namespace {

using nlohmann::json;

enum class Stage { kQueued, kLeased, kBuilding, kVerifying, kTiming, kStoring, kAcknowledged };
constexpr const char* kStageNames[] = {"queued", "leased",  "building",    "verifying",
                                       "timing", "storing", "acknowledged"};

struct Kill {
  Stage stage;
  bool front_end;  ///< else the worker that has the evaluation
};

/// Workers have nothing to do with what waits, or is answered.
std::vector<Kill> kinds_of_kills() {
  std::vector<Kill> kinds;
  for (std::size_t i = 0; i < std::size(kStageNames); ++i) {
    const auto stage = static_cast<Stage>(i);
    kinds.push_back({stage, true});
    if (stage != Stage::kQueued && stage != Stage::kAcknowledged) kinds.push_back({stage, false});
  }
  return kinds;
}

class StagesTest : public ProgramTest {
 protected:
  StagesTest() {
    std::filesystem::create_directory(path("kills"));
    ::setenv("LATHE_FAKE_KILLS", path("kills").c_str(), 1);
  }
  ~StagesTest() override { ::unsetenv("LATHE_FAKE_KILLS"); }

  /// What it goes on with may kill it before it answers.
  void start() {
    ASSERT_TRUE(eventually(60, [&] {
      if (!front_ || !front_->running())
        front_ = std::make_unique<Program>(
            folder_, std::vector<std::string>{"serve", "--port", std::to_string(port_), "--device", "cpu",
                                              "--worker-program", FAKE_WORKER, "--workers", "2"});
      return HttpClient(port_).get("/healthz").ok();
    })) << front_->err();
  }
  void start_again_if_killed() {
    if (!front_ || !front_->running()) start();
  }
  void kill_front_end() {
    front_->signal(SIGKILL);
    ASSERT_NE(front_->wait(10), -1);
  }

  /// Until it is acknowledged.
  json submit(const std::string& text, const std::string& query = "") {
    json answer;
    EXPECT_TRUE(eventually(30, [&] {
      start_again_if_killed();
      const auto got = HttpClient(port_).post("/v1/evaluations" + query, submission(text));
      if (!got.ok() || got->status >= 400) return false;
      answer = json::parse(got->body);
      return true;
    })) << text;
    texts_[answer.value("id", "")] = text;
    return answer;
  }

  json until_done(const std::string& id) {
    json last;
    EXPECT_TRUE(eventually(60, [&] {
      start_again_if_killed();
      const auto answer = HttpClient(port_).get("/v1/evaluations/" + id + "?wait=1");
      if (!answer.ok() || answer->status != 200) return false;
      last = json::parse(answer->body);
      return last["state"] == "done";
    })) << texts_[id];
    return last;
  }

  void kill_in(const Kill& kill, int number) {
    const std::string stage = kStageNames[static_cast<std::size_t>(kill.stage)];
    const std::string who = kill.front_end ? "parent" : "worker";
    const std::string text = fmt::format("candidate {} kill={}:{} sleep=0.006", number, stage, who);
    if (kill.stage == Stage::kQueued) {
      for (int i = 0; i < 10; ++i) submit(fmt::format("before {} {} sleep=0.03", number, i));
      const json answer = submit(text);
      if (answer["state"] == "queued") ++reached_[stage + ":" + who];
      kill_front_end();
    } else if (kill.stage == Stage::kAcknowledged) {
      const json told = submit(text, "?wait=20");
      if (told["state"] == "done") ++reached_[stage + ":" + who];
      kill_front_end();
      start();
      EXPECT_EQ(until_done(told["id"]), told) << "what was told once stays";
      EXPECT_EQ(submit(text), told) << "and is no evaluation more";
    } else {
      submit(text);
    }
  }

  const int port_ = free_port();
  std::unique_ptr<Program> front_;
  std::map<std::string, std::string> texts_;  // by id
  std::map<std::string, int> reached_;
};

TEST_F(StagesTest, AKillInAnyStageOfAnyProcessLosesDoublesAndForgesNothing) {
  constexpr int kOfEachKind = 25;
  std::vector<Kill> kills;
  for (const Kill& kind : kinds_of_kills()) kills.insert(kills.end(), kOfEachKind, kind);
  Rng rng(Seed::from_number(5));
  rng.shuffle(kills);
  for (std::size_t i = 0; i < kills.size(); ++i) {
    kill_in(kills[i], static_cast<int>(i));
    if (HasFatalFailure()) return;
  }
  const auto texts = texts_;
  for (const auto& [id, text] : texts)
    EXPECT_EQ(until_done(id)["verdict"]["reason"], digest_of(text).short_hex()) << text;
  std::set<std::string> seen;
  std::set<std::int64_t> numbers;
  for (std::int64_t after = 0;;) {
    const json page =
        json::parse(HttpClient(port_).get(fmt::format("/v1/evaluations?limit=500&after={}", after))->body);
    if (page["items"].empty()) break;
    for (const json& item : page["items"]) {
      EXPECT_TRUE(seen.insert(item["id"].get<std::string>()).second) << item;
      after = item["sequence"].get<std::int64_t>();
      EXPECT_TRUE(numbers.insert(after).second) << item;
    }
  }
  EXPECT_EQ(seen.size(), texts.size());
  EXPECT_EQ(numbers.empty() ? 0 : *numbers.rbegin(), static_cast<std::int64_t>(texts.size()))
      << "no number of completion was given twice or left out";

  for (const auto& mark : std::filesystem::directory_iterator(path("kills"))) {
    const std::string name = mark.path().filename();
    ++reached_[name.substr(0, name.find('.'))];
  }
  int all = 0;
  for (const Kill& kind : kinds_of_kills()) {
    const std::string name = fmt::format("{}:{}", kStageNames[static_cast<std::size_t>(kind.stage)],
                                         kind.front_end ? "parent" : "worker");
    EXPECT_GE(reached_[name], kOfEachKind * 4 / 5) << name;
    all += reached_[name];
  }
  RecordProperty("kills", all);
  EXPECT_GE(all, 250);
}

}  // namespace
}  // namespace lathe::serve
