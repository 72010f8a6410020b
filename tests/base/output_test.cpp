#include "base/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/fd.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

/// A fresh folder for each test.
class OutputTest : public testing::Test {
 protected:
  OutputTest() {
    std::string name = testing::TempDir() + "lathe-output-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~OutputTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  static mode_t permissions(const std::string& path) {
    struct stat meta {};
    return ::stat(path.c_str(), &meta) == 0 ? meta.st_mode & 07777 : 0;
  }

  std::string folder_;
};

TEST_F(OutputTest, ANewFileHasThePermissionsThatTheUmaskLeaves) {
  const mode_t before = ::umask(0027);
  EXPECT_TRUE(write_output(path("x"), "text").ok());
  ::umask(before);
  EXPECT_EQ(*read_file(path("x")), "text");
  EXPECT_EQ(permissions(path("x")), 0640u);
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputTest, AReplacedFileKeepsItsPermissions) {
  ASSERT_TRUE(write_output(path("x"), "a longer text").ok());
  ASSERT_EQ(::chmod(path("x").c_str(), 0600), 0);
  ASSERT_TRUE(write_output(path("x"), "text").ok());
  EXPECT_EQ(*read_file(path("x")), "text");
  EXPECT_EQ(permissions(path("x")), 0600u);
}

TEST_F(OutputTest, ADeviceIsWrittenToAndStays) {
  ASSERT_EQ(::symlink("/dev/null", path("null").c_str()), 0);
  EXPECT_TRUE(write_output("/dev/null", "text").ok());
  EXPECT_TRUE(write_output(path("null"), "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(fs::is_symlink(path("null")));
}

TEST_F(OutputTest, AFullDeviceIsAnErrorAndStays) {
  const Status full = write_output("/dev/full", "text");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, ErrorCode::kIo);
  EXPECT_NE(full.error().message.find("'/dev/full'"), std::string::npos) << full.error().message;
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(OutputTest, LinksAreFollowedAndStay) {
  ASSERT_TRUE(make_directories(path("below")).ok());
  ASSERT_TRUE(write_output(path("below/target"), "old").ok());
  ASSERT_EQ(::symlink("below/target", path("one").c_str()), 0);
  ASSERT_EQ(::symlink(path("one").c_str(), path("two").c_str()), 0);
  EXPECT_TRUE(write_output(path("two"), "new").ok());
  EXPECT_EQ(*read_file(path("below/target")), "new");
  EXPECT_TRUE(fs::is_symlink(path("one")) && fs::is_symlink(path("two")));
}

TEST_F(OutputTest, ALinkToNothingMakesItsTarget) {
  ASSERT_EQ(::symlink("later", path("link").c_str()), 0);
  EXPECT_TRUE(write_output(path("link"), "text").ok());
  EXPECT_EQ(*read_file(path("later")), "text");
  EXPECT_TRUE(fs::is_symlink(path("link")));
}

TEST_F(OutputTest, LinksInACircleAreAnError) {
  ASSERT_EQ(::symlink("b", path("a").c_str()), 0);
  ASSERT_EQ(::symlink("a", path("b").c_str()), 0);
  EXPECT_FALSE(write_output(path("a"), "text").ok());
  EXPECT_FALSE(check_output(path("a")).ok());
}

TEST_F(OutputTest, APipeIsWrittenTo) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = *read_file(path("pipe")); });
  EXPECT_TRUE(write_output(path("pipe"), "text").ok());
  reader.join();
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

TEST_F(OutputTest, ASocketIsWrittenTo) {
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_TRUE(write_output(path("socket"), "text").ok());
  const UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
  char got[8] = {};
  EXPECT_EQ(::read(peer.get(), got, sizeof got), 4);
  EXPECT_TRUE(fs::is_socket(path("socket")));
}

TEST_F(OutputTest, ADescriptorIsWrittenToAfterWhatItHolds) {
  const UniqueFd file(::open(path("x").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(file.get(), "before ", 7), 7);
  for (const char* folder : {"/dev/fd/", "/proc/self/fd/"})
    EXPECT_TRUE(write_output(folder + std::to_string(file.get()), "text ").ok());
  EXPECT_EQ(*read_file(path("x")), "before text text ");
  EXPECT_FALSE(write_output("/dev/fd/987", "text").ok());
  EXPECT_FALSE(check_output("/dev/fd/987").ok());
}

TEST_F(OutputTest, AFolderIsRefusedByName) {
  const Status refused = write_output(folder_, "text");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("it is a folder"), std::string::npos);
  EXPECT_FALSE(check_output(folder_).ok());
}

TEST_F(OutputTest, AFileAboveTheLimitIsAnErrorAndLeavesTheOldOne) {
  ASSERT_TRUE(write_output(path("x"), "old").ok());
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  rlimit small = limit;
  small.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Status failed = write_output(path("x"), std::string(5000, 'a'));
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, before);
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(*read_file(path("x")), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputTest, WhatCannotBeWrittenIsKnownBefore) {
  EXPECT_TRUE(check_output(path("new")).ok());
  EXPECT_TRUE(check_output("/dev/full").ok()) << "only writing shows it";
  EXPECT_FALSE(check_output(path("no/folder")).ok());
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace lathe
