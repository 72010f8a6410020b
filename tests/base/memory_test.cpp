#include "base/memory.h"

#include <gtest/gtest.h>

#include "base/fd.h"

namespace lathe {
namespace {

constexpr std::int64_t kMega = 1 << 20;

/// A system's files, in a folder of the test's own.
class System {
 public:
  System() : root_(testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name()) {}
  void file(const std::string& path, const std::string& text) {
    const std::string full = root_ + path;
    ASSERT_TRUE(make_directories(full.substr(0, full.rfind('/'))).ok());
    ASSERT_TRUE(write_file_atomically(full, text).ok());
  }
  std::optional<std::int64_t> available() const { return available_memory(root_); }
  std::optional<std::int64_t> total() const { return total_memory(root_); }

 private:
  std::string root_;
};

TEST(MemoryTest, IsWhatTheSystemHas) {
  System system;
  system.file("/proc/meminfo", "MemTotal:       8192 kB\nMemFree:         100 kB\nMemAvailable:   4096 kB\n");
  EXPECT_EQ(system.available(), 4 * kMega);
  EXPECT_EQ(system.total(), 8 * kMega);
}

TEST(MemoryTest, IsWhatTheTightestGroupLeaves) {
  System system;
  system.file("/proc/meminfo", "MemAvailable:   1048576 kB\n");
  system.file("/proc/self/cgroup", "1:name=systemd:/\n0::/outer/inner\n");
  system.file("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  system.file("/sys/fs/cgroup/outer/inner/memory.current", "1048576\n");
  system.file("/sys/fs/cgroup/outer/memory.max", "10485760\n");
  system.file("/sys/fs/cgroup/outer/memory.current", "4194304\n");
  EXPECT_EQ(system.available(), 6 * kMega);
  EXPECT_EQ(system.total(), 10 * kMega);
}

TEST(MemoryTest, CountsWhatOnlyCachesFiles) {
  System system;
  system.file("/proc/self/cgroup", "0::/\n");
  system.file("/sys/fs/cgroup/memory.max", "10485760\n");
  system.file("/sys/fs/cgroup/memory.current", "10485760\n");
  system.file("/sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 2097152\n");
  EXPECT_EQ(system.available(), 2 * kMega);
}

TEST(MemoryTest, IsUnknownWhereTheSystemDoesNotSay) {
  EXPECT_EQ(System().available(), std::nullopt);
  EXPECT_EQ(System().total(), std::nullopt);
}

}  // namespace
}  // namespace lathe
