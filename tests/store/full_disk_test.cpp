#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>

#include "base/fd.h"
#include "tests/store/fault_vfs.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

/// Restores the fault-free VFS at the end of a test.
struct FaultGuard {
  ~FaultGuard() { install_fault(Fault::kNone, 0); }
};

TEST(FullDisk, AtEachWriteOfAnAppendRefusesItAndKeepsTheRest) {
  const FaultGuard guard;
  int refused = 0;
  for (int at = 1; at < 40; ++at) {
    const TemporaryFolder folder;
    install_fault(Fault::kNone, 0);
    const auto store = open_or_fail(folder.path());
    ASSERT_TRUE(store->create_run(make_run("r")).ok());
    ASSERT_TRUE(store->append(make_experience("r", 0)).ok());

    install_fault(Fault::kDiskFull, at);
    const auto appended = store->append(make_experience("r", 1));
    install_fault(Fault::kNone, 0);
    if (appended.ok()) break;
    ++refused;
    EXPECT_EQ(appended.error().code, ErrorCode::kIo);
    EXPECT_THAT(appended.error().message, HasSubstr("full"));
    EXPECT_THAT(appended.error().hint, HasSubstr("disk space"));
    ASSERT_EQ(store->experiences("r")->size(), 1u);
    EXPECT_TRUE(store->append(make_experience("r", 1)).ok()) << "space was freed";
  }
  EXPECT_GT(refused, 0);
}

/// Fills a small tmpfs in a mount namespace of its own. Exit 77: mounting is not permitted here.
int fill_small_disk(const std::string& folder) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=768k") != 0) {
    return 77;
  }
  std::int64_t stored = 0;
  {
    const auto store = Store::open(folder);
    if (!store.ok() || !(*store)->create_run(make_run("r")).ok()) return 1;
    for (;; ++stored) {
      Experience big = make_experience("r", stored);
      big.candidate_text.assign(20'000, 'x');
      const auto appended = (*store)->append(big);
      if (appended.ok()) continue;
      if (appended.error().code != ErrorCode::kIo || appended.error().hint.empty()) return 2;
      break;
    }
    if (stored == 0) return 3;
    const auto blob = blobs_of(folder).put(std::string(1 << 20, 'b'));
    if (blob.ok() || blob.error().code != ErrorCode::kIo) return 4;
  }
  ::mount("tmpfs", folder.c_str(), "tmpfs", MS_REMOUNT, "size=4m");
  const auto store = Store::open(folder);
  if (!store.ok()) return 5;
  const auto rows = (*store)->experiences("r");
  if (!rows.ok() || static_cast<std::int64_t>(rows->size()) != stored) return 6;
  return (*store)->append(make_experience("r", stored)).ok() ? 0 : 7;
}

TEST(FullDisk, OfARealFileSystemIsReportedAndRecoveredFrom) {
  const TemporaryFolder folder;
  const int status = wait_status(fork_child([&] { return fill_small_disk(folder.path()); }));
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ReadOnlyFolder, IsRefusedWithAHint) {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  const int status = wait_status(fork_child([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 77;
    const auto store = Store::open(folder.path());
    if (store.ok() || store.error().code != ErrorCode::kIo) return 1;
    return store.error().hint.find("may write") == std::string::npos ? 2 : 0;
  }));
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "root cannot drop its privileges here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace lathe
