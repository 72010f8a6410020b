// The kernels for GPUs that pages show or name: what a reader copies must compile.

#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "backend/cuda/runner/nvrtc.h"
#include "base/fd.h"
#include "candidate/candidate.h"
#include "tests/candidate/documented_candidates.h"

namespace lathe::cuda {
namespace {

using testing::IsEmpty;
using testing::Not;

std::string text_of(const std::string& path) { return read_file(LATHE_SOURCE_DIR + path).value(); }

/// The paths of the form examples/cuda/NAME.cu that a Markdown text names.
std::set<std::string> named_examples(const std::string& markdown) {
  static const std::regex path("examples/cuda/\\w+\\.cu\\b");
  std::set<std::string> found;
  for (std::sregex_iterator match(markdown.begin(), markdown.end(), path), end; match != end; ++match)
    found.insert(match->str());
  return found;
}

class DocumentationTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc_.ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc_.error().to_string();
  }
  void expect_to_compile(const std::string& candidate, const std::string& place) const {
    SCOPED_TRACE(place);
    const auto parsed = parse_candidate(candidate, place);
    ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
    const Compiled compiled = nvrtc_->compile(candidate, {"-arch=sm_90a", "-I" LATHE_SOURCE_DIR "/device"});
    EXPECT_TRUE(compiled.ok) << compiled.log;
  }
  const Result<Nvrtc> nvrtc_ = Nvrtc::open();
};

TEST_F(DocumentationTest, EveryCandidateOfAPageCompiles) {
  int count = 0;
  for (const DocumentedCandidate& shown : documented_candidates()) {
    if (!shown.for_gpu) continue;
    expect_to_compile(shown.text, shown.place);
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST_F(DocumentationTest, EveryNamedExampleCompiles) {
  std::set<std::string> examples = named_examples(text_of("/docs/cuda.md"));
  examples.merge(named_examples(text_of("/docs/cuda_candidates.md")));
  EXPECT_THAT(examples, Not(IsEmpty()));
  for (const std::string& path : examples) expect_to_compile(text_of("/" + path), path);
}

}  // namespace
}  // namespace lathe::cuda
