#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "base/fd.h"
#include "tests/report/sample_run.h"

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kChromium = "chromium --headless --no-sandbox --disable-gpu --hide-scrollbars ";

class Browser : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v chromium >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "no chromium on this machine";
    std::filesystem::create_directories(folder_);
    const SampleRun sample = make_sample_run();
    const auto page = render_report(sample.run, sample.experiences, sample.extras);
    ASSERT_TRUE(page.ok());
    ASSERT_TRUE(write_file_atomically(page_, *page).ok());
  }
  /// Runs the browser, HOME and profile inside the build folder; returns what it wrote to stdout.
  std::string browse(const std::string& arguments) const {
    const std::string out = folder_ + "/stdout";
    const std::string command = "HOME='" + folder_ + "' timeout 60 " + kChromium + "--user-data-dir='" +
                                folder_ + "/profile' " + arguments + " 'file://" + page_ + "' >'" + out +
                                "' 2>/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return read_file(out).ok() ? *read_file(out) : "";
  }

  const std::string folder_ = std::string(LATHE_BINARY_DIR) + "/report_browser/" +
                              testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string page_ = folder_ + "/report.html";
};

TEST_F(Browser, ParsesThePageAsItWasMeant) {
  const std::string dom = browse("--dump-dom");
  EXPECT_THAT(dom, HasSubstr("<h1>softmax_rows</h1>"));
  EXPECT_THAT(dom, HasSubstr("Evidence that it is correct"));
  EXPECT_THAT(dom, HasSubstr("and loads nothing.</p></footer>"));
  EXPECT_THAT(dom, Not(HasSubstr("NaN")));
  EXPECT_THAT(dom, Not(HasSubstr("=\"inf")));
}

TEST_F(Browser, PaintsItWideAndNarrow) {
  for (const int width : {1280, 420}) {
    const std::string picture = folder_ + "/report-" + std::to_string(width) + ".png";
    std::filesystem::remove(picture);
    browse("--window-size=" + std::to_string(width) + ",5200 --screenshot='" + picture + "'");
    ASSERT_TRUE(std::filesystem::exists(picture));
    EXPECT_GT(std::filesystem::file_size(picture), 50'000u) << "an empty page compresses to less";
  }
}

}  // namespace
}  // namespace lathe
