#include "base/temporary_folder.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

#include "base/fd.h"

namespace lathe {
namespace {

/// Sets a variable of the environment until its end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name), before_(std::getenv(name)) {
    if (before_) kept_ = before_;
    ::setenv(name, value, 1);
  }
  ~Variable() { before_ ? ::setenv(name_, kept_.c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  const char* before_;
  std::string kept_;
};

TEST(TemporaryFolder, GoesWithWhatIsInIt) {
  std::string path;
  {
    const auto folder = TemporaryFolder::make("lathe-test");
    ASSERT_TRUE(folder.ok()) << folder.error().to_string();
    path = folder->path();
    EXPECT_TRUE(write_file_atomically(path + "/file", "x").ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolder, ThatCannotBeIsAnErrorWithAHint) {
  const Variable missing("TMPDIR", "/no/such/folder");
  const auto folder = TemporaryFolder::make("lathe-test");
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kIo);
  EXPECT_THAT(folder.error().hint, testing::HasSubstr("TMPDIR"));
}

}  // namespace
}  // namespace lathe
