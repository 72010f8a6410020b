#include "model/find_model.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "base/fd.h"

namespace lathe {
namespace {

TEST(FindModel, TakesAPlaceAsItIsAndTheNameOfWhatWasFetched) {
  const std::string folder = testing::TempDir() + "lathe_find_model", models = folder + "/lathe/models";
  std::filesystem::create_directories(models);
  ASSERT_TRUE(write_file_atomically(models + "/small.gguf", "GGUF").ok());
  ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  EXPECT_EQ(find_model("small").value(), models + "/small.gguf");
  EXPECT_EQ(find_model(models + "/small.gguf").value(), models + "/small.gguf");
  EXPECT_EQ(find_model(folder).value(), folder);
  for (const char* const none : {"large", "lathe/small", "small.gguf"}) {
    const auto found = find_model(none);
    ASSERT_FALSE(found.ok()) << none;
    EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(found.error().hint, testing::HasSubstr("fetch_models.sh"));
  }
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace lathe
