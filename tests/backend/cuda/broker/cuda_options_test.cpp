#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "backend/cuda/broker/cuda_backend.h"
#include "base/fd.h"

namespace lathe {
namespace {

/// Sets LD_LIBRARY_PATH for the duration of a test case.
class LibraryPath {
 public:
  explicit LibraryPath(const std::string& value) {
    if (const char* before = std::getenv("LD_LIBRARY_PATH")) before_ = before;
    ::setenv("LD_LIBRARY_PATH", value.c_str(), 1);
  }
  LibraryPath(const LibraryPath&) = delete;
  LibraryPath& operator=(const LibraryPath&) = delete;
  ~LibraryPath() { ::setenv("LD_LIBRARY_PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

TEST(CudaOptions, LaunchersGetThePathOfTheUsersCudnn) {
  const std::string folder = testing::TempDir() + "lathe-some-cudnn";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(write_file_atomically(folder + "/libcudnn.so.9", "not a library\n").ok());
  const LibraryPath path("/nowhere::" + folder);
  const auto options = with_defaults({});
  ASSERT_TRUE(options.ok()) << options.error().to_string();
  EXPECT_EQ(options->cudnn_library, folder + "/libcudnn.so.9");
  EXPECT_EQ(launcher_arguments(*options).back(), options->cudnn_library);
}

TEST(CudaOptions, OtherwiseTheLoaderLooksForCudnn) {
  const LibraryPath path("/nowhere");
  const auto options = with_defaults({});
  ASSERT_TRUE(options.ok()) << options.error().to_string();
  EXPECT_EQ(options->cudnn_library, "");
}

TEST(CudaOptions, AChosenCudnnIsKept) {
  const auto options = with_defaults({.cudnn_library = "/chosen/libcudnn.so.9"});
  ASSERT_TRUE(options.ok()) << options.error().to_string();
  EXPECT_EQ(options->cudnn_library, "/chosen/libcudnn.so.9");
}

}  // namespace
}  // namespace lathe
