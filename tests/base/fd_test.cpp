#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

namespace lathe {
namespace {

namespace fs = std::filesystem;

/// A fresh folder for each test.
class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = testing::TempDir() + "lathe-fd-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  std::string folder_;
};

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesWhatItOwnsOnce) {
  int number = -1;
  {
    UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = fd.get();
    const UniqueFd moved(std::move(fd));
    EXPECT_FALSE(fd.valid());
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, GivesUpWhatIsReleased) {
  UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = fd.release();
  fd.reset();
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST_F(FileTest, BytesComeBackAsTheyWereWritten) {
  std::string bytes(300'000, 'a');
  bytes[5] = '\0';
  ASSERT_TRUE(write_file_atomically(path("x"), bytes).ok());
  EXPECT_EQ(*read_file(path("x")), bytes);
  EXPECT_EQ(files(), 1);
}

TEST_F(FileTest, AMissingFileIsNotFoundAndNamed) {
  const auto missing = read_file(path("none"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find(path("none")), std::string::npos);
}

TEST_F(FileTest, AFolderIsNoFileToRead) {
  const auto folder = read_file(folder_);
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(folder.error().hint, "name a file in it");
}

TEST_F(FileTest, AFailedWriteLeavesNothingBehind) {
  ASSERT_TRUE(make_directories(path("taken")).ok());
  const Status failed = write_file_atomically(path("taken"), "text");
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().hint, "");
  EXPECT_EQ(files(), 1);
  EXPECT_FALSE(write_file_atomically(path("no/folder"), "text").ok());
}

TEST_F(FileTest, AReaderSeesOneVersionOrTheOther) {
  const std::string versions[] = {std::string(100'000, 'a'), std::string(100'000, 'b')};
  ASSERT_TRUE(write_file_atomically(path("x"), versions[0]).ok());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) (void)write_file_atomically(path("x"), versions[i % 2]);
  });
  for (int i = 0; i < 200; ++i) {
    const auto seen = read_file(path("x"));
    EXPECT_TRUE(seen.ok() && (*seen == versions[0] || *seen == versions[1]));
  }
  stop = true;
  writer.join();
}

TEST_F(FileTest, MakesFoldersOnTheWayAndSaysWhenItCannot) {
  EXPECT_TRUE(make_directories(path("a/b/c")).ok());
  EXPECT_TRUE(make_directories(path("a/b/c")).ok());
  ASSERT_TRUE(write_file_atomically(path("file"), "").ok());
  EXPECT_FALSE(make_directories(path("file/below")).ok());
}

}  // namespace
}  // namespace lathe
