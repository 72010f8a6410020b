#include "backend/object_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lathe {
namespace {

namespace fs = std::filesystem;

/// A fresh folder for each test, in which "cache" does not exist yet.
class ObjectCacheTest : public testing::Test {
 protected:
  ObjectCacheTest() {
    std::string name = testing::TempDir() + "lathe-object-cache-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    cache_ = folder_ + "/cache";
  }
  ~ObjectCacheTest() override { fs::remove_all(folder_); }

  std::string object_file(const Digest& key) const { return cache_ + "/object-" + key.hex(); }

  std::string folder_, cache_;
  const Digest key_ = digest_of("inputs"), other_ = digest_of("other inputs");
};

TEST_F(ObjectCacheTest, ObjectsComeBackUnderTheirKey) {
  const auto cache = ObjectCache::open(cache_);
  ASSERT_TRUE(cache.ok()) << cache.error().to_string();
  EXPECT_EQ(cache->find(key_), std::nullopt);
  cache->publish(key_, "object");
  EXPECT_EQ(cache->find(key_), "object");
  EXPECT_EQ(cache->find(other_), std::nullopt);
}

TEST_F(ObjectCacheTest, ADamagedObjectCountsAsMissing) {
  const auto cache = ObjectCache::open(cache_);
  ASSERT_TRUE(cache.ok());
  for (const std::int64_t at : {0, 3, 64, 69}) {
    cache->publish(key_, "object");
    std::fstream file(object_file(key_), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put('X');
    file.close();
    EXPECT_EQ(cache->find(key_), std::nullopt) << "byte " << at;
  }
  for (const std::uintmax_t size : {0, 10, 64, 69}) {
    cache->publish(key_, "object");
    fs::resize_file(object_file(key_), size);
    EXPECT_EQ(cache->find(key_), std::nullopt) << size << " bytes";
  }
}

TEST_F(ObjectCacheTest, AnObjectUnderAnothersNameCountsAsMissing) {
  const auto cache = ObjectCache::open(cache_);
  ASSERT_TRUE(cache.ok());
  cache->publish(key_, "object");
  fs::rename(object_file(key_), object_file(other_));
  EXPECT_EQ(cache->find(other_), std::nullopt);
}

TEST_F(ObjectCacheTest, ADamagedFolderIsFilledAgain) {
  const auto cache = ObjectCache::open(cache_);
  ASSERT_TRUE(cache.ok());
  int filled = 0;
  const auto publish = [&] {
    const auto path = cache->publish_folder("headers", [&](const std::string& staging) {
      ++filled;
      return write_file_atomically(staging + "/cpu.h", "text");
    });
    EXPECT_TRUE(path.ok() && *read_file(*path + "/cpu.h") == "text");
  };
  publish();
  publish();
  EXPECT_EQ(filled, 1);
  ASSERT_TRUE(write_file_atomically(cache_ + "/headers/cpu.h", "other").ok());
  publish();
  EXPECT_EQ(filled, 2);
  ASSERT_TRUE(write_file_atomically(cache_ + "/headers/planted.h", "").ok());
  publish();
  EXPECT_EQ(filled, 3);
  fs::remove_all(cache_ + "/headers");
  publish();
  EXPECT_EQ(filled, 4);
}

TEST_F(ObjectCacheTest, ARelativePathIsRefusedForJailsHaveAnotherRoot) {
  EXPECT_FALSE(ObjectCache::open("cache").ok());
}

TEST_F(ObjectCacheTest, AFolderThatOthersMayWriteToIsRefused) {
  ASSERT_EQ(::mkdir(cache_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(cache_.c_str(), 01777), 0);
  const auto refused = ObjectCache::open(cache_);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("everybody may write"), std::string::npos);
  EXPECT_NE(refused.error().hint.find("LATHE_CACHE"), std::string::npos);
}

TEST_F(ObjectCacheTest, APlaceWhereNoFolderCanBeNamesTheVariable) {
  std::ofstream(cache_) << "a file";
  const auto refused = ObjectCache::open(cache_ + "/deeper");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().hint.find("LATHE_CACHE"), std::string::npos) << refused.error().hint;
}

TEST_F(ObjectCacheTest, AnotherUsersFolderIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::mkdir(cache_.c_str(), 0755), 0);
  ASSERT_EQ(::chown(cache_.c_str(), 1234, 1234), 0);
  const auto refused = ObjectCache::open(cache_);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("belongs to another user"), std::string::npos);
}

TEST_F(ObjectCacheTest, TheGroupLosesItsRightToWrite) {
  ASSERT_EQ(::mkdir(cache_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(cache_.c_str(), 0775), 0);
  EXPECT_TRUE(ObjectCache::open(cache_).ok());
  EXPECT_EQ(fs::status(cache_).permissions() & fs::perms::group_write, fs::perms::none);
}

/// Sets a variable of the environment for one test; nullptr unsets it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;

 private:
  void set(const char* value) const {
    if (value)
      ::setenv(name_, value, 1);
    else
      ::unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(DefaultCacheFolder, IsAlwaysAbsolute) {
  const Variable relative("LATHE_CACHE", "some/../cache");
  EXPECT_EQ(*default_cache_folder(), (fs::current_path() / "cache").string());
}

TEST(DefaultCacheFolder, IsNeverSharedWithOthers) {
  const Variable none("LATHE_CACHE", nullptr), no_xdg("XDG_CACHE_HOME", "relative"), no_home("HOME", nullptr);
  const auto folder = default_cache_folder();
  if (folder.ok()) {
    EXPECT_FALSE(folder->starts_with("/tmp/")) << *folder;
    EXPECT_TRUE(folder->starts_with("/")) << *folder;
  } else {
    EXPECT_NE(folder.error().hint.find("LATHE_CACHE"), std::string::npos);
  }
}

}  // namespace
}  // namespace lathe
