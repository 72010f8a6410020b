#include <thread>

#include "tests/store/fixtures.h"

namespace lathe {
namespace {

constexpr int kEach = 60;

int append_all(const std::string& folder, int writer) {
  const auto store = Store::open(folder);
  if (!store.ok()) return 1;
  const std::string run = "writer-" + std::to_string(writer);
  if (!(*store)->create_run(make_run(run)).ok()) return 2;
  for (int i = 0; i < kEach; ++i) {
    if (!(*store)->append(make_experience(run, i)).ok()) return 3;
    if (!blobs_of(folder).put("shared " + std::to_string(i)).ok()) return 4;
  }
  return 0;
}

TEST(Sharing, TwoProcessesCreateAndFillOneStoreAtOnce) {
  const TemporaryFolder folder;
  const pid_t first = fork_child([&] { return append_all(folder.path(), 1); });
  const pid_t second = fork_child([&] { return append_all(folder.path(), 2); });
  EXPECT_EQ(wait_status(first), 0);
  EXPECT_EQ(wait_status(second), 0);
  const auto store = open_or_fail(folder.path());
  for (const char* run : {"writer-1", "writer-2"}) {
    const auto rows = store->experiences(run);
    ASSERT_TRUE(rows.ok());
    ASSERT_EQ(rows->size(), static_cast<std::size_t>(kEach));
    for (int i = 0; i < kEach; ++i) EXPECT_EQ((*rows)[i].sequence, i);
  }
}

TEST(Sharing, ASequenceNumberGoesToOneOfTwoProcesses) {
  const TemporaryFolder folder;
  ASSERT_TRUE(open_or_fail(folder.path())->create_run(make_run("r")).ok());
  const auto contend = [&] {
    const auto store = Store::open(folder.path());
    int won = 0;
    for (int i = 0; i < kEach; ++i) won += (*store)->append(make_experience("r", i)).ok();
    return won;
  };
  const pid_t first = fork_child(contend);
  const pid_t second = fork_child(contend);
  EXPECT_EQ(WEXITSTATUS(wait_status(first)) + WEXITSTATUS(wait_status(second)), kEach);
  EXPECT_EQ(open_or_fail(folder.path())->experiences("r")->size(), static_cast<std::size_t>(kEach));
}

TEST(Sharing, ThreadsShareOneStore) {
  const TemporaryFolder folder;
  const auto store = open_or_fail(folder.path());
  ASSERT_TRUE(store->create_run(make_run("r")).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) EXPECT_TRUE(store->append(make_experience("r", 10 * t + i)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->experiences("r")->size(), 40u);
}

}  // namespace
}  // namespace lathe
