// The complete examples of docs/cuda.md and docs/cuda_candidates.md: what a reader copies must
// compile.

#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "backend/cuda/runner/nvrtc.h"
#include "base/fd.h"
#include "candidate/candidate.h"

namespace lathe::cuda {
namespace {

using testing::IsEmpty;
using testing::Not;

std::string text_of(const std::string& path) { return read_file(LATHE_SOURCE_DIR "/" + path).value(); }

/// The fenced blocks of a Markdown text that hold a plan and code after it.
std::vector<std::string> complete_candidates(const std::string& markdown) {
  static const std::regex fence("```[a-z]*\n(/\\*lathe[^`]*)```");
  std::vector<std::string> found;
  for (std::sregex_iterator match(markdown.begin(), markdown.end(), fence), end; match != end; ++match) {
    const std::string block = (*match)[1];
    if (block.find_first_not_of(" \n", block.find("*/") + 2) != block.npos) found.push_back(block);
  }
  return found;
}

/// The paths of the form examples/cuda/NAME.cu that a Markdown text names.
std::set<std::string> named_examples(const std::string& markdown) {
  static const std::regex path("examples/cuda/\\w+\\.cu\\b");
  std::set<std::string> found;
  for (std::sregex_iterator match(markdown.begin(), markdown.end(), path), end; match != end; ++match)
    found.insert(match->str());
  return found;
}

class DocumentationTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!nvrtc_.ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc_.error().to_string();
  }
  void expect_to_compile(const std::string& candidate) const {
    const auto parsed = parse_candidate(candidate, "example");
    ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
    const Compiled compiled = nvrtc_->compile(candidate, {"-arch=sm_90a", "-I" LATHE_SOURCE_DIR "/device"});
    EXPECT_TRUE(compiled.ok) << compiled.log;
  }
  const Result<Nvrtc> nvrtc_ = Nvrtc::open();
};

TEST_P(DocumentationTest, CompleteExamplesCompile) {
  const std::string page = text_of(GetParam());
  std::vector<std::string> candidates = complete_candidates(page);
  for (const std::string& path : named_examples(page)) candidates.push_back(text_of(path));
  EXPECT_THAT(candidates, Not(IsEmpty()));
  for (const std::string& candidate : candidates) {
    SCOPED_TRACE(candidate);
    expect_to_compile(candidate);
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, DocumentationTest,
                         testing::Values("docs/cuda.md", "docs/cuda_candidates.md"));

}  // namespace
}  // namespace lathe::cuda
