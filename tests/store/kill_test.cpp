#include <csignal>
#include <thread>

#include "base/random.h"
#include "tests/store/fault_vfs.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

constexpr int kAppends = 3;

/// Opens, starts a run, appends; writes one byte to `acknowledge` for each call that returned Ok.
int write_history(const std::string& folder, int acknowledge, int appends) {
  auto store = Store::open(folder);
  if (!store.ok()) return 1;
  const auto done = [&](const char* what) { return ::write(acknowledge, what, 1) == 1; };
  if (!(*store)->create_run(make_run("r")).ok() || !done("r")) return 2;
  for (int i = 0; i < appends; ++i) {
    if (!blobs_of(folder).put("blob " + std::to_string(i)).ok() || !done("b")) return 3;
    if (!(*store)->append(make_experience("r", i)).ok() || !done("a")) return 4;
  }
  store = Result<std::unique_ptr<Store>>(std::unique_ptr<Store>());
  return 0;
}

struct Acknowledged {
  int runs = 0;
  int blobs = 0;
  int appends = 0;
};

Acknowledged read_acknowledgements(int fd) {
  Acknowledged sum;
  for (char what = 0; ::read(fd, &what, 1) == 1;) {
    sum.runs += what == 'r';
    sum.blobs += what == 'b';
    sum.appends += what == 'a';
  }
  return sum;
}

/// All that was acknowledged is there, at most one call more, without gap or duplicate; and the
/// store works on.
void expect_intact(const std::string& folder, const Acknowledged& promised) {
  const auto store = open_or_fail(folder);
  ASSERT_NE(store, nullptr);
  const auto runs = store->runs(10);
  ASSERT_TRUE(runs.ok());
  ASSERT_GE(static_cast<int>(runs->size()), promised.runs);
  if (runs->empty()) return;
  const auto rows = store->experiences("r");
  ASSERT_TRUE(rows.ok()) << rows.error().to_string();
  const int count = static_cast<int>(rows->size());
  EXPECT_GE(count, promised.appends);
  EXPECT_LE(count, promised.appends + 1);
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ((*rows)[i].sequence, i);
    EXPECT_EQ((*rows)[i].candidate_text, make_experience("r", i).candidate_text);
  }
  for (int i = 0; i < promised.blobs; ++i) {
    const std::string blob = "blob " + std::to_string(i);
    const auto bytes = store->get_blob(digest_of(blob));
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(*bytes, blob);
  }
  if (count > 0) {
    EXPECT_FALSE(store->append(make_experience("r", count - 1)).ok()) << "counted twice";
  }
  EXPECT_TRUE(store->append(make_experience("r", count)).ok());
}

/// True if the child was killed, false if it finished first.
bool killed_at(Fault fault, int at) {
  const TemporaryFolder folder;
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  const pid_t child = fork_child([&] {
    install_fault(fault, at);
    return write_history(folder.path(), pipe[1], kAppends);
  });
  ::close(pipe[1]);
  const Acknowledged promised = read_acknowledgements(pipe[0]);
  ::close(pipe[0]);
  const int status = wait_status(child);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "exit " << WEXITSTATUS(status);
  expect_intact(folder.path(), promised);
  return WIFSIGNALED(status);
}

class KillAtEveryWrite : public testing::TestWithParam<Fault> {};

TEST_P(KillAtEveryWrite, LosesNothingCommittedAndCountsNothingTwice) {
  int at = 1;
  while (killed_at(GetParam(), at) && !HasFailure()) ++at;
  EXPECT_GT(at, 20) << "the shim saw too few writes to have tried every stage";
}

INSTANTIATE_TEST_SUITE_P(Faults, KillAtEveryWrite, testing::Values(Fault::kKillBefore, Fault::kKillHalf),
                         [](const auto& fault) {
                           return fault.param == Fault::kKillBefore ? "Before" : "Half";
                         });

TEST(KillFromOutside, AtRandomTimesLosesNothingCommitted) {
  Rng rng(Seed::from_number(8));
  for (int round = 0; round < 20; ++round) {
    const TemporaryFolder folder;
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = fork_child([&] { return write_history(folder.path(), pipe[1], 1'000'000); });
    ::close(pipe[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(rng.between(500, 40'000)));
    ::kill(child, SIGKILL);
    const Acknowledged promised = read_acknowledgements(pipe[0]);
    ::close(pipe[0]);
    ASSERT_TRUE(WIFSIGNALED(wait_status(child)));
    expect_intact(folder.path(), promised);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

}  // namespace
}  // namespace lathe
