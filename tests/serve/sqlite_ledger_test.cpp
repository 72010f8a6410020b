#include "serve/sqlite_ledger.h"

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "store/sqlite.h"
#include "tests/serve/ledger_contract.h"
#include "tests/store/fixtures.h"

namespace lathe::serve {
namespace {

std::unique_ptr<Ledger> open_or_fail(const std::string& folder) {
  auto ledger = open_sqlite_ledger(folder);
  EXPECT_TRUE(ledger.ok()) << (ledger.ok() ? "" : ledger.error().to_string());
  return ledger.ok() ? *std::move(ledger) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Sqlite, LedgerContract,
                         testing::Values(LedgerMaker{"sqlite",
                                                     [] {
                                                       const auto folder =
                                                           std::make_shared<TemporaryFolder>();
                                                       return
                                                           [folder] { return open_or_fail(folder->path()); };
                                                     }}),
                         [](const auto& maker) { return maker.param.name; });

TEST(SqliteLedger, OneFrontEndAtATimeHasAFolder) {
  const TemporaryFolder folder;
  auto first = open_or_fail(folder.path());
  const auto second = open_sqlite_ledger(folder.path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  first.reset();
  EXPECT_TRUE(open_sqlite_ledger(folder.path()).ok());
}

TEST(SqliteLedger, IsItsOwnersAlone) {
  const TemporaryFolder folder;
  const auto ledger = open_or_fail(folder.path());
  for (const char* const file : {"/serve.db", "/serve.db-wal", "/serve.db-shm"})
    EXPECT_EQ(std::filesystem::status(folder.path() + file).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
        << file;
}

TEST(SqliteLedger, KilledAtAnyInstantItHasWhatItHasSaid) {
  const TemporaryFolder folder;
  for (int round = 0; round < 20; ++round) {
    int said[2];
    ASSERT_EQ(::pipe(said), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto ledger = open_sqlite_ledger(folder.path());
      for (int i = 0; ledger.ok(); ++i) {
        const Submission submission = make_submission(std::to_string(round) + "/" + std::to_string(i));
        const auto outcome = (*ledger)->write({.submissions = {{submission, 1 << 20}}, .max_all = 1 << 20});
        if (!outcome.ok() || outcome->submissions.at(0) != Admission::kNew) ::_exit(1);
        if (::write(said[1], &i, sizeof i) != sizeof i) ::_exit(1);
      }
      ::_exit(1);
    }
    ::close(said[1]);
    int last = -1;
    for (int i = 0; last < 3 + round; last = i)
      if (::read(said[0], &i, sizeof i) != sizeof i) break;
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    for (int i; ::read(said[0], &i, sizeof i) == sizeof i;) last = i;
    ::close(said[0]);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto ledger = open_or_fail(folder.path());
    for (int i = 0; i <= last; ++i) {
      const auto id = make_submission(std::to_string(round) + "/" + std::to_string(i)).key.id();
      EXPECT_TRUE(ledger->find(std::vector{Ledger::Name("a", id)}).value().at(0)) << round << "/" << i;
    }
  }
}

TEST(SqliteLedger, RefusesANewerOne) {
  const TemporaryFolder folder;
  open_or_fail(folder.path());
  ASSERT_TRUE(Database::open(folder.path() + "/serve.db")->execute("PRAGMA user_version = 99").ok());
  EXPECT_EQ(open_sqlite_ledger(folder.path()).error().code, ErrorCode::kUnavailable);
}

TEST(SqliteLedger, AProbeFailsWhereARequestWouldThoughAFewBytesFit) {
  const TemporaryFolder folder;
  const auto ledger = *open_sqlite_ledger(folder.path());
  ASSERT_TRUE(ledger->write({.submissions = {{make_submission("x"), 9}}, .max_all = 9}).ok());
  const auto log_bytes = std::filesystem::file_size(folder.path() + "/serve.db-wal");
  ::signal(SIGXFSZ, SIG_IGN);  // what is too long fails as on a full disk
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit little = before;
  little.rlim_cur = log_bytes + 3 * 4200;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  EXPECT_FALSE(ledger->write({.probe = true}).ok());
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(ledger->write({.probe = true}).ok());
  EXPECT_TRUE(ledger->write({.probe = true}).ok()) << "it leaves nothing in the next one's way";
  EXPECT_EQ(ledger->write({.submissions = {{make_submission("x"), 9}}, .max_all = 9})->submissions.at(0),
            Admission::kJoined);
}

}  // namespace
}  // namespace lathe::serve
