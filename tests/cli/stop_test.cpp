#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/fd.h"
#include "base/random.h"
#include "store/store.h"
#include "tests/cli/program.h"

namespace lathe {
namespace {

constexpr int kEvaluations = 7;  // the tiny task has eight different kernels
constexpr double kSoon = 20;     // what is to end at once, on such a machine
constexpr double kLong = 240;    // for whole runs, on a machine that does other things too

class StopTest : public ProgramTest {
 protected:
  std::vector<std::string> optimize() const {
    return {"optimize", "tiny.toml", "--evals", std::to_string(kEvaluations), "--json", "out.json"};
  }
  static std::vector<std::string> resume() { return {"optimize", "--resume", "last", "--json", "out.json"}; }

  /// The newest run; its id is empty as long as there is none.
  RunRecord newest() const {
    if (::access(path(".lathe/lathe.db").c_str(), F_OK) != 0) return {};
    const auto store = Store::open(path(".lathe"));
    if (!store.ok()) return {};
    const auto run = (*store)->run("last");
    return run.ok() ? *run : RunRecord{};
  }
  bool grows_to(Program& program, std::int64_t experiences) const {
    return eventually(kLong, [&] { return newest().experiences >= experiences || !program.running(); });
  }

  /// The whole budget, each candidate once, and no more than one confirmation of each.
  void check_run(const std::string& id) const {
    const auto store = Store::open(path(".lathe"));
    ASSERT_TRUE(store.ok());
    EXPECT_EQ((*store)->run(id)->status, "done");
    const auto experiences = *(*store)->experiences(id);
    std::set<std::pair<Depth, Digest>> seen;
    int screens = 0;
    for (std::size_t i = 0; i < experiences.size(); ++i) {
      EXPECT_EQ(experiences[i].sequence, static_cast<std::int64_t>(i));
      EXPECT_NE(experiences[i].verdict.outcome, Outcome::kInfra) << experiences[i].verdict.reason;
      EXPECT_TRUE(seen.emplace(experiences[i].verdict.depth, experiences[i].candidate).second);
      screens += experiences[i].verdict.depth == Depth::kScreen ? 1 : 0;
    }
    EXPECT_EQ(screens, kEvaluations);
  }

  nlohmann::json document() const { return nlohmann::json::parse(*read_file(path("out.json"))); }

  /// Whether the program has compiled something.
  bool has_objects() const {
    std::error_code ignored;
    for (std::filesystem::directory_iterator it(path("cache"), ignored), end; it != end; ++it)
      if (it->path().filename().string().starts_with("object-")) return true;
    return false;
  }

  void expect_no_temporaries() const {
    for (const std::string& name : files()) EXPECT_FALSE(name.starts_with("cache/work-")) << name;
  }
};

TEST_F(StopTest, CtrlCKeepsWhatIsDoneAndResumeGoesOn) {
  Program first(folder_, optimize());
  ASSERT_TRUE(grows_to(first, 2));
  first.signal(SIGINT);
  const int status = first.wait(kSoon);
  ASSERT_TRUE(WIFEXITED(status)) << first.err();
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const RunRecord stopped = newest();
  EXPECT_EQ(stopped.status, "interrupted");
  EXPECT_GE(stopped.experiences, 2);
  EXPECT_NE(first.err().find("lathe optimize --resume " + stopped.id), std::string::npos) << first.err();
  EXPECT_EQ(document()["status"], "interrupted");
  EXPECT_EQ(document()["evaluations"], stopped.experiences);
  EXPECT_TRUE(helpers_are_gone());
  expect_no_temporaries();

  Program second(folder_, resume());
  EXPECT_EQ(second.wait(kLong), 0) << second.err();
  check_run(stopped.id);
  EXPECT_EQ(document()["status"], "done");
  expect_no_temporaries();

  const auto done = document();
  Program third(folder_, resume());
  EXPECT_EQ(third.wait(kLong), 0) << third.err();
  EXPECT_EQ(document(), done);
  EXPECT_EQ(third.err(), "");
  EXPECT_EQ(third.out(), "run " + stopped.id +
                             " is done; --evals N or --seconds N goes on with it\nreport: .lathe/reports/" +
                             stopped.id + ".html\n");
}

TEST_F(StopTest, ATerminalThatClosesStopsCleanlyToo) {
  Program program(folder_, optimize());
  ASSERT_TRUE(grows_to(program, 1));
  program.signal(SIGHUP);
  const int status = program.wait(kSoon);
  ASSERT_TRUE(WIFEXITED(status)) << program.err();
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(newest().status, "interrupted");
  EXPECT_TRUE(helpers_are_gone());
}

TEST_F(StopTest, VerbsThatKeepNothingStopTheSame) {
  Program generates(folder_, {"tasks", "generate", "--count", "999999", "--out", "made"});
  ASSERT_TRUE(eventually(kLong, [&] { return ::access(path("made/generated_1.toml").c_str(), F_OK) == 0; }));
  generates.signal(SIGINT);
  EXPECT_EQ(WEXITSTATUS(generates.wait(kSoon)), 130);
  EXPECT_FALSE(generates.running());

  Program examines(folder_, {"doctor", "--conformance", "--device", "cpu", "--only", "spin_forever,zeros"});
  ASSERT_TRUE(eventually(kLong, [&] { return has_objects() || !examines.running(); }));
  examines.signal(SIGINT);
  const int status = examines.wait(kSoon);
  ASSERT_TRUE(WIFEXITED(status)) << examines.err();
  EXPECT_EQ(WEXITSTATUS(status), 130) << examines.err();
  EXPECT_EQ(examines.out(), "");
  EXPECT_TRUE(helpers_are_gone());
}

TEST_F(StopTest, AWarningHasAnOwnerAndItsHintALine) {
  ASSERT_EQ(::setenv("LATHE_LOCKS", "/proc/nowhere", 1), 0);
  Program program(folder_, {"optimize", "tiny.toml", "--device", "cpu"});
  ::unsetenv("LATHE_LOCKS");
  ASSERT_TRUE(eventually(kLong, [&] { return program.err().find("LATHE_LOCKS") != std::string::npos; }))
      << program.err();
  program.signal(SIGINT);
  program.wait(kSoon);
  EXPECT_EQ(program.err().find(": other programs may time"), program.err().find("other programs") - 2);
  EXPECT_NE(program.err().find("other programs"), 2u) << "nobody's: " << program.err();
  EXPECT_NE(program.err().find("\n    hint: set LATHE_LOCKS"), std::string::npos) << program.err();
}

TEST_F(StopTest, CtrlCWhileItPreparesLeavesNoRun) {
  Program program(folder_, optimize());
  ASSERT_TRUE(eventually(kLong, [&] { return program.err().find("preparing") != std::string::npos; }));
  program.signal(SIGINT);
  const int status = program.wait(kSoon);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_NE(program.err().find("stopped before tiny was begun"), std::string::npos) << program.err();
  EXPECT_EQ(newest().id, "");
  EXPECT_EQ(program.out(), "");
  EXPECT_TRUE(helpers_are_gone());
  expect_no_temporaries();
}

TEST_F(StopTest, TheSecondSignalEndsAtOnce) {
  Program program(folder_, optimize());
  ASSERT_TRUE(grows_to(program, 1));
  program.signal(SIGINT);
  program.signal(SIGTERM);
  const int status = program.wait(kSoon);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_TRUE(helpers_are_gone());
  Program second(folder_, resume());
  EXPECT_EQ(second.wait(kLong), 0) << second.err();
  check_run(newest().id);
  expect_no_temporaries();
}

TEST_F(StopTest, TheSameSignalTwiceInAMomentIsOne) {
  Program program(folder_, optimize());
  ASSERT_TRUE(grows_to(program, 1));
  program.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  program.signal(SIGTERM);
  const int status = program.wait(kSoon);
  ASSERT_TRUE(WIFEXITED(status)) << program.err();
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(newest().status, "interrupted");
}

TEST_F(StopTest, KilledAtAnyMomentNothingIsLostOrCountedTwice) {
  Rng rng(Seed::from_number(11));
  std::int64_t stored = 0;
  for (int kill = 0; kill < 5; ++kill) {
    Program program(folder_, stored == 0 ? optimize() : resume());
    if (kill > 0) {
      ASSERT_TRUE(grows_to(program, stored + 1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(kill > 0 ? 400 : 2000)));
    program.signal(SIGKILL);
    program.wait(kSoon);
    EXPECT_TRUE(helpers_are_gone());
    EXPECT_GE(newest().experiences, stored) << "what was stored is lost";
    stored = newest().experiences;
  }
  Program last(folder_, resume());
  EXPECT_EQ(last.wait(kLong), 0) << last.err();
  check_run(newest().id);
  EXPECT_EQ(document()["status"], "done");
  expect_no_temporaries();
}

TEST_F(StopTest, TwoRunsShareAStoreButNotARun) {
  Program first(folder_, {"optimize", "tiny.toml", "--evals", std::to_string(kEvaluations)});
  ASSERT_TRUE(grows_to(first, 1));
  const std::string id = newest().id;
  Program intruder(folder_, {"optimize", "--resume", id});
  Program second(folder_, {"optimize", "tiny.toml", "--evals", std::to_string(kEvaluations), "--seed", "2"});
  EXPECT_EQ(WEXITSTATUS(intruder.wait(kLong)), 4);
  EXPECT_NE(intruder.err().find("another process is working on run " + id), std::string::npos)
      << intruder.err();
  EXPECT_EQ(first.wait(kLong), 0) << first.err();
  EXPECT_EQ(second.wait(kLong), 0) << second.err();
  check_run(id);
  const std::string other = newest().id;
  EXPECT_NE(other, id);
  check_run(other);
  expect_no_temporaries();
}

}  // namespace
}  // namespace lathe
