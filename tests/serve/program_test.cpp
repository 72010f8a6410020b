#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/http/client.h"
#include "base/random.h"
#include "bench/serve/http_client.h"
#include "tests/serve/submission.h"

namespace lathe::serve {
namespace {

using nlohmann::json;

/// For this process and what it starts, until its end.
class FewOpenFiles {
 public:
  explicit FewOpenFiles(rlim_t soft) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = soft;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewOpenFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

class ServeProgramTest : public ProgramTest {
 protected:
  /// The port is the first one's for good, so that clients find the next one.
  void start(std::vector<std::string> more = {"--worker-program", FAKE_WORKER, "--workers", "4"}) {
    std::vector<std::string> args = {"serve", "--port", std::to_string(port_), "--device", "cpu"};
    args.insert(args.end(), more.begin(), more.end());
    program_ = std::make_unique<Program>(folder_, args);
    ASSERT_TRUE(eventually(
        30, [&] { return program_->out().find('\n') != std::string::npos || !program_->running(); }));
    const std::string out = program_->out();
    ASSERT_NE(out.rfind(':'), std::string::npos) << program_->err();
    port_ = std::atoi(out.c_str() + out.rfind(':') + 1);
  }

  json until_done(const std::string& id, double seconds) {
    json last;
    eventually(seconds, [&] {
      const auto answer = HttpClient(port_).get("/v1/evaluations/" + id + "?wait=1");
      if (!answer.ok()) return false;
      last = json::parse(answer->body);
      return answer->status == 200;
    });
    return last;
  }

  /// Processes of the program's workers.
  std::vector<pid_t> workers(const std::string& name) const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename().string();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      const auto line = read_file("/proc/" + pid + "/cmdline"),
                 folder = read_file("/proc/" + pid + "/environ");
      if (!line.ok() || !folder.ok()) continue;
      if (line->find(name + std::string(1, '\0') + "worker") != std::string::npos &&
          folder->find(folder_) != std::string::npos)
        found.push_back(std::atoi(pid.c_str()));
    }
    return found;
  }
  /// How many there were.
  std::size_t kill_workers(const std::string& program) const {
    const auto found = workers(program);
    for (const pid_t worker : found) ::kill(worker, SIGKILL);
    return found.size();
  }

  int port_ = 0;
  std::unique_ptr<Program> program_;
};

TEST_F(ServeProgramTest, OneRealVerdictWithAWorkerKilledInTheMiddle) {
  start({});
  HttpClient client(port_);
  const auto posted = client.post("/v1/evaluations", submission(kTinyKernel));
  ASSERT_TRUE(posted.ok());
  const std::string id = json::parse(posted->body)["id"];
  ASSERT_TRUE(eventually(
      120, [&] { return json::parse(client.get("/v1/evaluations/" + id)->body)["state"] != "queued"; }));
  EXPECT_EQ(kill_workers("lathe-serve"), 1u);
  const json done = until_done(id, 120);
  EXPECT_EQ(done["verdict"]["outcome"], "PASS") << done << program_->err();
  const auto wrong = client.post("/v1/evaluations?wait=60", submission("no kernel"));
  EXPECT_EQ(json::parse(wrong->body)["verdict"]["outcome"], "BUILD_FAILED") << wrong->body;
  EXPECT_EQ(json::parse(client.get("/v1/evaluations")->body)["items"].size(), 2u);
  program_->signal(SIGTERM);
  EXPECT_EQ(program_->wait(30), 0);
  EXPECT_TRUE(helpers_are_gone());
}

TEST_F(ServeProgramTest, OptimizeAsksAServiceAsItAsksThisMachineAndItsEndInTheMiddleCostsNothing) {
  start({});
  const std::string url = "http://127.0.0.1:" + std::to_string(port_);
  Program optimize(folder_, {"optimize", "tiny.toml", "--evals", "4", "--device", url, "--json", "run.json"});
  ASSERT_TRUE(eventually(120, [&] {
    const auto done = HttpClient(port_).get("/v1/evaluations");
    return done.ok() && json::parse(done->body)["items"].size() >= 2;
  })) << optimize.err();
  program_->signal(SIGKILL);
  program_->wait(10);
  start({});
  EXPECT_EQ(optimize.wait(200), 0) << optimize.err();
  const json run = json::parse(read_file(path("run.json")).value());
  EXPECT_GE(run["evaluations"], 4) << run;
  EXPECT_GT(run["best"]["speedup_best"], 0) << run;

  write("kernel.cpp", kTinyKernel);
  Program eval(folder_, {"eval", "tiny.toml", "kernel.cpp", "--device", url, "--depth", "verify"});
  EXPECT_EQ(eval.wait(120), 0) << eval.err();
  EXPECT_THAT(eval.out(), testing::StartsWith("PASS"));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"eval", "tiny.toml", "kernel.cpp", "--device", url, "--threads", "2"},
        {"doctor", "--device", url},
        {"serve", "--device", url, "--store", "another"}}) {
    Program refused(folder_, wrong);
    EXPECT_EQ(WEXITSTATUS(refused.wait(20)), 3) << refused.err();
    EXPECT_THAT(refused.err(), testing::HasSubstr("hint: "));
  }
}

TEST_F(ServeProgramTest, EveryProcessKilledAtRandomTimesAndEveryAnswerOnce) {
  start();
  constexpr int kCount = 400;
  Rng rng(Seed::from_number(17));
  std::vector<std::string> ids;
  for (int i = 0; i < kCount; ++i) {
    if (rng.chance(0.1)) {
      const auto pids = workers(FAKE_WORKER);
      if (!pids.empty()) ::kill(pids[rng.below(pids.size())], SIGKILL);
    }
    if (rng.chance(0.05)) {
      program_->signal(SIGKILL);
      program_->wait(10);
      start();
    }
    const std::string body = submission("candidate " + std::to_string(i) + " sleep=0.004");
    ASSERT_TRUE(eventually(20, [&] {
      const auto answer = HttpClient(port_).post("/v1/evaluations", body);
      if (!answer.ok() || answer->status >= 400) return false;
      ids.push_back(json::parse(answer->body)["id"]);
      return true;
    }));
  }
  for (int i = 0; i < kCount; ++i) {
    const json done = until_done(ids[static_cast<std::size_t>(i)], 60);
    const Digest digest = digest_of("candidate " + std::to_string(i) + " sleep=0.004");
    EXPECT_EQ(done["verdict"]["reason"], digest.short_hex()) << i << " " << done;
  }
  std::set<std::string> seen;
  const json all = json::parse(HttpClient(port_).get("/v1/evaluations?limit=1000")->body);
  for (const json& item : all["items"]) EXPECT_TRUE(seen.insert(item["id"].get<std::string>()).second);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kCount));
}

TEST_F(ServeProgramTest, ACandidateThatEndsItsWorkersIsAVerdictAndOthersGoOn) {
  start();
  HttpClient client(port_);
  std::vector<std::string> deadly;
  for (const char* const text : {"fault", "exhaust memory"})
    deadly.push_back(json::parse(client.post("/v1/evaluations", submission(text))->body)["id"]);
  std::vector<std::string> others;
  for (int i = 0; i < 50; ++i)
    others.push_back(json::parse(
        client.post("/v1/evaluations", submission("fine " + std::to_string(i) + " sleep=0.01"))->body)["id"]);
  for (const std::string& id : deadly)
    EXPECT_EQ(until_done(id, 30)["verdict"]["reason"], "worker_killed") << id;
  for (const std::string& id : others) EXPECT_NE(until_done(id, 30)["verdict"]["reason"], "worker_killed");
}

TEST_F(ServeProgramTest, AHangingWorkerIsReplacedAndAForgerRefused) {
  start();
  HttpClient client(port_);
  const std::string hang = json::parse(client.post("/v1/evaluations", submission("stop_worker"))->body)["id"];
  const std::string forger = json::parse(client.post("/v1/evaluations", submission("forge"))->body)["id"];
  EXPECT_EQ(until_done(forger, 60)["verdict"]["reason"], "worker_killed") << "no forged verdict is taken";
  EXPECT_EQ(until_done(hang, 60)["verdict"]["reason"], "worker_killed");
}

TEST_F(ServeProgramTest, IdleConnectionsKeepNeitherClientsNorWorkersOut) {
  {
    const FewOpenFiles few(100);
    start();
  }
  std::vector<std::unique_ptr<HttpClient>> idle;
  const std::int64_t begin_ns = steady_clock().now_ns();
  for (int i = 0; i < 200; ++i) {
    idle.push_back(std::make_unique<HttpClient>(port_));
    ASSERT_EQ(idle.back()->get("/healthz")->status, 200) << i;
  }
  EXPECT_GT(kill_workers(FAKE_WORKER), 0u);
  const auto done = HttpClient(port_).post("/v1/evaluations?wait=15", submission("one"));
  EXPECT_EQ(json::parse(done->body)["state"], "done") << done->body;
  EXPECT_LT(seconds_since(begin_ns), 15) << "not only once the service has cut them off";
}

TEST_F(ServeProgramTest, SigtermDrains) {
  start();
  HttpClient client(port_);
  const std::string id = json::parse(client.post("/v1/evaluations", submission("slow sleep=1"))->body)["id"];
  ASSERT_TRUE(eventually(
      10, [&] { return json::parse(client.get("/v1/evaluations/" + id)->body)["state"] == "running"; }));
  program_->signal(SIGTERM);
  EXPECT_EQ(program_->wait(20), 0);
  start();
  EXPECT_EQ(json::parse(HttpClient(port_).get("/v1/evaluations/" + id)->body)["state"], "done")
      << "it was finished first";
}

TEST_F(ServeProgramTest, WhereNoWorkerCanEverStartTheServiceEndsAndSaysSo) {
  Program hopeless(folder_, {"serve", "--port", "0", "--device", "cpu", "--worker-program", "/bin/false"});
  EXPECT_EQ(WEXITSTATUS(hopeless.wait(30)), 4);
  EXPECT_THAT(hopeless.err(), testing::HasSubstr("no worker can start here (cpu)"));
  EXPECT_THAT(hopeless.err(), testing::HasSubstr("--workers none"));
}

TEST_F(ServeProgramTest, AGpuThatIsNotThereIsRefusedAtOnce) {
  for (const char* const device : {"cuda:99", "host:cuda:99"}) {
    Program gpu(folder_, {"serve", "--port", "0", "--device", device});
    EXPECT_THAT(WEXITSTATUS(gpu.wait(60)), testing::AnyOf(3, 4)) << "no such one, or no driver at all";
    EXPECT_EQ(gpu.out(), "") << "nobody is told to come";
  }
}

TEST_F(ServeProgramTest, AWorkerThatEndsLaterIsWaitedFor) {
  start();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(eventually(20, [&] { return kill_workers(FAKE_WORKER) > 0; })) << i;
  const auto done = HttpClient(port_).post("/v1/evaluations?wait=15", submission("one"));
  EXPECT_EQ(json::parse(done->body)["state"], "done") << done->body;
}

TEST_F(ServeProgramTest, AnAddressOfIPv6HasBracketsInItsUrl) {
  Program service(folder_, {"serve", "--address", "::1", "--port", "0", "--device", "cpu", "--worker-program",
                            FAKE_WORKER});
  ASSERT_TRUE(
      eventually(30, [&] { return service.out().find('\n') != std::string::npos || !service.running(); }));
  if (!service.running()) GTEST_SKIP() << "this machine has no IPv6: " << service.err();
  const std::string out = service.out(),
                    url = out.substr(out.find("http"), out.find('\n') - out.find("http"));
  EXPECT_THAT(url, testing::StartsWith("http://[::1]:"));
  const auto reply = http::exchange({.url = url + "/v1/tasks"});
  ASSERT_TRUE(reply.ok()) << reply.error().to_string();
  EXPECT_EQ(reply->status, 200) << "it is this machine: " << reply->body;
}

TEST_F(ServeProgramTest, OthersThanThisMachineNeedATokenToBeThere) {
  Program open(folder_, {"serve", "--address", "0.0.0.0", "--port", "0", "--device", "cpu"});
  EXPECT_EQ(WEXITSTATUS(open.wait(20)), 3);
  EXPECT_THAT(open.err(), testing::HasSubstr("lathe serve token add"));
  Program add(folder_, {"serve", "token", "add", "trainer"});
  EXPECT_EQ(add.wait(20), 0);
  EXPECT_THAT(add.out(), testing::StartsWith("lathe_"));
  start();
  const std::string token = add.out().substr(0, add.out().find('\n'));
  EXPECT_EQ(HttpClient(port_).get("/v1/tasks")->status, 401);
  EXPECT_EQ(HttpClient(port_, token).get("/v1/tasks")->status, 200);
}

}  // namespace
}  // namespace lathe::serve
