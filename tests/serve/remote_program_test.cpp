#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/digest.h"
#include "base/fd.h"
#include "base/random.h"
#include "bench/serve/http_client.h"
#include "tests/serve/submission.h"

// `lathe serve` without workers of its own, and `lathe worker` processes that reach it over HTTP.
namespace lathe::serve {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RemoteProgramTest : public ProgramTest {
 protected:
  ~RemoteProgramTest() override { ::unsetenv("LATHE_TOKEN"); }

  /// The port is the first one's for good, so that workers find the next one.
  void start() {
    front_ =
        std::make_unique<Program>(folder_, std::vector<std::string>{"serve", "--port", std::to_string(port_),
                                                                    "--device", "cpu", "--workers", "none"});
    ASSERT_TRUE(
        eventually(30, [&] { return front_->out().find('\n') != std::string::npos || !front_->running(); }));
    const std::string out = front_->out();
    ASSERT_NE(out.rfind(':'), std::string::npos) << front_->err();
    port_ = std::atoi(out.c_str() + out.rfind(':') + 1);
  }

  std::unique_ptr<Program> worker(std::vector<std::string> more = {"--worker-program", FAKE_WORKER}) {
    std::vector<std::string> args = {"worker", "--front-end", "http://127.0.0.1:" + std::to_string(port_),
                                     "--device", "cpu"};
    args.insert(args.end(), more.begin(), more.end());
    return std::make_unique<Program>(folder_, args);
  }

  std::string submit(const std::string& text) {
    std::string id;
    EXPECT_TRUE(eventually(30, [&] {
      const auto answer = HttpClient(port_).post("/v1/evaluations", submission(text));
      if (!answer.ok() || answer->status >= 400) return false;
      id = json::parse(answer->body)["id"];
      return true;
    }));
    return id;
  }

  std::string state(const std::string& id) {
    const auto answer = HttpClient(port_).get("/v1/evaluations/" + id);
    return answer.ok() ? json::parse(answer->body)["state"].get<std::string>() : "";
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

  double metric(const std::string& name) {
    const auto page = HttpClient(port_).get("/metrics");
    if (!page.ok()) return -1;
    const std::size_t at = page->body.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::atof(page->body.c_str() + at + name.size() + 2);
  }

  /// Processes of this test whose command line begins so.
  std::vector<pid_t> processes(const std::string& program, const std::string& verb) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename().string();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      const auto line = read_file("/proc/" + pid + "/cmdline"),
                 environment = read_file("/proc/" + pid + "/environ");
      if (line.ok() && environment.ok() && line->starts_with(program + std::string(1, '\0') + verb) &&
          environment->find(folder_) != std::string::npos)
        found.push_back(std::atoi(pid.c_str()));
    }
    return found;
  }
  void signal_all(const std::vector<pid_t>& pids, int number) {
    for (const pid_t pid : pids) ::kill(pid, number);
  }

  int port_ = 0;
  std::unique_ptr<Program> front_;
};

TEST_F(RemoteProgramTest, OneRealVerdictFromAWorkerThatSeesTheFrontEndAlone) {
  start();
  const auto remote = worker({});
  const json done = until_done(submit(kTinyKernel), 120);
  EXPECT_EQ(done["verdict"]["outcome"], "PASS") << done << remote->err();
  EXPECT_EQ(until_done(submit("no kernel"), 60)["verdict"]["outcome"], "BUILD_FAILED");
  remote->signal(SIGTERM);
  EXPECT_EQ(remote->wait(30), 0) << remote->err();
  EXPECT_TRUE(eventually(5, [&] { return HttpClient(port_).get("/readyz")->status == 503; }))
      << "no worker is left";
  front_->signal(SIGTERM);
  EXPECT_EQ(front_->wait(30), 0);
  EXPECT_TRUE(helpers_are_gone());
}

TEST_F(RemoteProgramTest, AKilledWorkersEvaluationIsAnothersWithinSeconds) {
  start();
  auto first = worker();
  const std::string id = submit("text sleep=2");
  ASSERT_TRUE(eventually(20, [&] { return state(id) == "running"; })) << first->err();
  const auto second = worker();
  ASSERT_TRUE(eventually(20, [&] { return processes(FAKE_WORKER, "worker").size() == 2; }));
  first->signal(SIGKILL);
  first->wait(10);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(until_done(id, 30)["verdict"]["reason"], digest_of("text sleep=2").short_hex());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "5 s, then 2 s of work";
  EXPECT_TRUE(eventually(5, [&] { return processes(FAKE_WORKER, "worker").size() == 1; }))
      << "its process has ended with it";
}

TEST_F(RemoteProgramTest, ACandidateThatEndsItsWorkersIsAVerdictAndSoIsAForgersAndASilentOne) {
  start();
  const auto first = worker(), second = worker();
  std::vector<std::string> deadly;
  for (const char* const text : {"fault", "forge", "stop_worker"}) deadly.push_back(submit(text));
  std::vector<std::string> others;
  for (int i = 0; i < 30; ++i) others.push_back(submit("fine " + std::to_string(i) + " sleep=0.01"));
  for (const std::string& id : deadly)
    EXPECT_EQ(until_done(id, 90)["verdict"]["reason"], "worker_killed") << id;
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(until_done(others[static_cast<std::size_t>(i)], 30)["verdict"]["reason"],
              digest_of("fine " + std::to_string(i) + " sleep=0.01").short_hex());
  EXPECT_GE(metric("lathe_answers_refused_total"), 1);
}

TEST_F(RemoteProgramTest, AWorkerCutOffForSomeSecondsLosesNothing) {
  start();
  const auto remote = worker();
  const std::string id = submit("text sleep=1");
  ASSERT_TRUE(eventually(20, [&] { return state(id) == "running"; }));
  remote->signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  remote->signal(SIGCONT);
  EXPECT_EQ(until_done(id, 5)["verdict"]["reason"], digest_of("text sleep=1").short_hex());
  EXPECT_EQ(metric("lathe_workers_lost_total"), 0) << "the lease was not over";
}

TEST_F(RemoteProgramTest, AWorkerCutOffBeyondItsLeaseDoesNoHarm) {
  start();
  const auto first = worker();
  const std::string id = submit("text sleep=2");
  ASSERT_TRUE(eventually(20, [&] { return state(id) == "running"; }));
  ASSERT_TRUE(eventually(5, [&] { return first->err().find("worker.joined") != std::string::npos; }));
  first->signal(SIGSTOP);  // its process goes on, and has its answer soon
  const auto second = worker();
  EXPECT_EQ(until_done(id, 20)["verdict"]["reason"], digest_of("text sleep=2").short_hex());
  first->signal(SIGCONT);
  EXPECT_TRUE(eventually(10, [&] { return first->err().find("worker.session_over") != std::string::npos; }))
      << first->err();
  second->signal(SIGKILL);
  second->wait(10);
  EXPECT_EQ(until_done(submit("another"), 20)["verdict"]["reason"], digest_of("another").short_hex())
      << "it works again";
  const json all = json::parse(HttpClient(port_).get("/v1/evaluations?limit=1000")->body);
  EXPECT_EQ(all["items"].size(), 2u);
}

TEST_F(RemoteProgramTest, ARestartedFrontEndHasItsWorkersBackWithinSeconds) {
  start();
  const auto remote = worker();
  const std::string id = submit("text sleep=2");
  ASSERT_TRUE(eventually(20, [&] { return state(id) == "running"; }));
  const auto process = processes(FAKE_WORKER, "worker");
  front_->signal(SIGKILL);
  front_->wait(10);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  start();
  EXPECT_EQ(until_done(id, 20)["verdict"]["reason"], digest_of("text sleep=2").short_hex()) << remote->err();
  EXPECT_EQ(processes(FAKE_WORKER, "worker"), process) << "what the process has prepared is kept";
  const std::string log = remote->err();
  EXPECT_EQ(log.find("worker.cut_off"), log.rfind("worker.cut_off")) << log;
  EXPECT_THAT(log, HasSubstr("worker.cut_off"));
}

TEST_F(RemoteProgramTest, CancellationAndDeadlinesReachAWorkerElsewhere) {
  start();
  const auto remote = worker();
  const std::string id = submit("text sleep=60");
  ASSERT_TRUE(eventually(20, [&] { return state(id) == "running"; }));
  EXPECT_EQ(HttpClient(port_).remove("/v1/evaluations/" + id)->status, 200);
  json late = json::parse(submission("late sleep=60"));
  late["deadline_seconds"] = 1;
  const auto expired = HttpClient(port_).post("/v1/evaluations?wait=20", late.dump());
  EXPECT_EQ(json::parse(expired->body)["state"], "expired");
  EXPECT_TRUE(eventually(5, [&] {
    const std::string page = HttpClient(port_).get("/metrics")->body;
    const std::size_t at = page.find("\nlathe_worker_in_hand{");
    return at != std::string::npos && page.substr(page.find("} ", at), 4) == "} 0\n";
  })) << "the worker has said that it stopped both";
}

TEST_F(RemoteProgramTest, SigtermFinishesWhatIsInHand) {
  start();
  const auto remote = worker();
  const std::string id = submit("slow sleep=1");
  ASSERT_TRUE(eventually(20, [&] { return state(id) == "running"; }));
  ASSERT_TRUE(eventually(5, [&] { return remote->err().find("worker.joined") != std::string::npos; }));
  remote->signal(SIGTERM);
  EXPECT_EQ(remote->wait(20), 0) << remote->err();
  EXPECT_EQ(state(id), "done");
  EXPECT_EQ(metric("lathe_workers_lost_total"), 0);
}

TEST_F(RemoteProgramTest, WhereNoProcessCanEverStartTheWorkerEndsAndSaysSo) {
  start();
  const auto remote = worker({"--worker-program", "/bin/false"});
  EXPECT_EQ(WEXITSTATUS(remote->wait(30)), 4);
  EXPECT_THAT(remote->err(), HasSubstr("no worker can start here (cpu)"));
}

TEST_F(RemoteProgramTest, ATokenOfTheRoleIsNeededAndNeverShown) {
  const auto token_of = [&](const std::string& name, const std::string& role) {
    Program add(folder_, {"serve", "token", "add", name, "--role", role});
    EXPECT_EQ(add.wait(20), 0) << add.err();
    return add.out().substr(0, add.out().find('\n'));
  };
  const std::string works = token_of("gpu-1", "worker"), submits = token_of("trainer", "submit");
  start();
  const auto refused = [&](const std::string& token, const std::string& part) {
    ::setenv("LATHE_TOKEN", token.c_str(), 1);
    const auto remote = worker();
    EXPECT_EQ(WEXITSTATUS(remote->wait(20)), 4);
    EXPECT_THAT(remote->err(), HasSubstr(part));
    EXPECT_THAT(remote->err(), HasSubstr("lathe serve token add NAME --role worker"));
    EXPECT_THAT(remote->err(), testing::Not(HasSubstr(works)));
  };
  refused("", "401");
  refused(works + "0", "401");
  refused(submits, "403");
  ::setenv("LATHE_TOKEN", (works + "\r\nX-Evil: y").c_str(), 1);
  const auto evil = worker();
  EXPECT_EQ(WEXITSTATUS(evil->wait(20)), 3);
  EXPECT_THAT(evil->err(), HasSubstr("LATHE_TOKEN has blanks"));
  EXPECT_THAT(evil->err(), testing::Not(HasSubstr(works)));
  ::setenv("LATHE_TOKEN", (works + "\n").c_str(), 1);  // as a file has it
  const auto remote = worker();
  HttpClient client(port_, submits);
  const auto done = client.post("/v1/evaluations?wait=30", submission("x"));
  EXPECT_EQ(json::parse(done->body)["verdict"]["reason"], digest_of("x").short_hex()) << remote->err();
  for (const pid_t pid : processes(FAKE_WORKER, "worker"))
    EXPECT_THAT(read_file("/proc/" + std::to_string(pid) + "/environ").value(),
                testing::Not(HasSubstr(works)));
  Program removal(folder_, {"serve", "token", "remove", "gpu-1"});
  EXPECT_EQ(removal.wait(20), 0);
  EXPECT_TRUE(eventually(20, [&] { return client.get("/readyz")->status == 503; }))
      << "at once, also for a running worker";
}

TEST_F(RemoteProgramTest, EveryProcessKilledAtRandomTimesAndEveryAnswerOnce) {
  start();
  constexpr int kCount = 300;
  Rng rng(Seed::from_number(17));
  std::vector<std::unique_ptr<Program>> remotes;
  for (int i = 0; i < 3; ++i) remotes.push_back(worker());
  std::vector<std::string> ids;
  for (int i = 0; i < kCount; ++i) {
    if (rng.chance(0.05)) {
      const auto pids = processes(FAKE_WORKER, "worker");
      if (!pids.empty()) ::kill(pids[rng.below(pids.size())], SIGKILL);
    }
    if (rng.chance(0.03)) {
      auto& remote = remotes[rng.below(remotes.size())];
      remote->signal(SIGKILL);
      remote->wait(10);
      remote = worker();
    }
    if (rng.chance(0.03)) {
      front_->signal(SIGKILL);
      front_->wait(10);
      start();
    }
    ids.push_back(submit("candidate " + std::to_string(i) + " sleep=0.004"));
  }
  for (int i = 0; i < kCount; ++i) {
    const Digest digest = digest_of("candidate " + std::to_string(i) + " sleep=0.004");
    EXPECT_EQ(until_done(ids[static_cast<std::size_t>(i)], 90)["verdict"]["reason"], digest.short_hex()) << i;
  }
  std::set<std::string> seen;
  const json all = json::parse(HttpClient(port_).get("/v1/evaluations?limit=1000")->body);
  for (const json& item : all["items"]) EXPECT_TRUE(seen.insert(item["id"].get<std::string>()).second);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kCount));
}

}  // namespace
}  // namespace lathe::serve
