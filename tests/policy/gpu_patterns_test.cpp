// What the catalogue writes for a GPU, read as text. tests/policy/cuda_catalog_test compiles it;
// bench/torch/check.py runs it.

#include <gmock/gmock.h>

#include "candidate/candidate.h"
#include "policy/catalog/emit.h"

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A task over x [rows, cols], scored at one shape.
TaskSpec over_rows(const std::string& graph, int rows, int cols) {
  const std::string text =
      "name = \"t\"\ndims = { rows = [1, 2000000], cols = [1, 2000000] }\n"
      "tensor = [{ name = \"x\", shape = [\"rows\", \"cols\"] }]\ngraph = \"" +
      graph + "\"\n[[shape]]\nname = \"s\"\nrows = " + std::to_string(rows) +
      "\ncols = " + std::to_string(cols) + "\n";
  return *parse_task(text, "t.toml");
}

catalog::Emission written_for(const TaskSpec& task, const catalog::Schedule& schedule = {}) {
  return *catalog::emit(*catalog::lower(task), schedule, nullptr, {.cuda = true});
}

int steps_of(const catalog::Emission& emission) {
  return static_cast<int>(parse_candidate(emission.text, "t")->plan.steps.size());
}

TEST(GpuPatterns, ARowThatRegistersHoldIsReadBeforeItsFirstPass) {
  const TaskSpec task = over_rows("y = softmax(x)", 4096, 4096);
  const catalog::Emission kept = written_for(task);
  EXPECT_EQ(kept.schedule.at("g0.keep"), 4);  // 4096 = 4 * 256 threads * 4 elements
  EXPECT_THAT(kept.text, HasSubstr("k_t0[u] = load("));
  EXPECT_THAT(written_for(task, {{"g0.keep", 0}}).text, Not(HasSubstr("k_t0")));
}

TEST(GpuPatterns, ALongRowOfASoftmaxIsReadOnceForMaximumAndSum) {
  const TaskSpec task = over_rows("y = logsumexp(x, axis = 1)", 4096, 65536);
  EXPECT_THAT(written_for(task).text, HasSubstr("extend_softmax("));
  EXPECT_THAT(written_for(task, {{"g0.online", 0}}).text, Not(HasSubstr("extend_softmax(")));
}

TEST(GpuPatterns, FewRowsAndColumnsAreSharedByManyBlocks) {
  for (const char* graph : {"y = sum(x)", "y = sum(x, axis = 0)", "y = reduce_max(x, axis = 1)"}) {
    const TaskSpec task = over_rows(graph, 16, 1 << 20);
    const bool columns = std::string(graph).find("axis = 0") != std::string::npos;
    const TaskSpec tall = over_rows(graph, 1 << 20, 16);
    const catalog::Emission shared = written_for(columns ? tall : task);
    EXPECT_EQ(steps_of(shared), 2) << graph;
    EXPECT_THAT(shared.text, HasSubstr("sm_count")) << graph;
    EXPECT_EQ(steps_of(written_for(task, {{"g0.split", 0}})), 1) << graph;
  }
  EXPECT_EQ(steps_of(written_for(over_rows("y = sum(x, axis = 1)", 4096, 4096))), 1) << "rows suffice";
}

TEST(GpuPatterns, ChainedKernelsWaitBeforeTheyReadResults) {
  const TaskSpec task = over_rows("y = sum(x)", 1024, 1024);
  const std::string chained = written_for(task).text;
  EXPECT_THAT(chained, HasSubstr("programmatic = true"));
  EXPECT_THAT(chained, HasSubstr("wait_for_previous();"));
  // A promise that results never change would let the compiler read them before the wait.
  EXPECT_THAT(chained, HasSubstr("const float* p_s_g0_t1"));
  EXPECT_THAT(chained, Not(HasSubstr("const float* __restrict__ p_s_g0_t1")));
  EXPECT_THAT(written_for(task, {{"chain", 0}}).text, Not(HasSubstr("programmatic")));
}

TEST(GpuPatterns, TheProcessorsTextKnowsNothingOfAllThis) {
  const TaskSpec task = over_rows("y = softmax(x)", 4096, 4096);
  const std::string text = catalog::emit(*catalog::lower(task), {}, nullptr, {})->text;
  for (const char* word : {"reach", "kKept", "splits", "quotient", "__restrict__ p_s_"})
    EXPECT_THAT(text, Not(HasSubstr(word)));
}

}  // namespace
}  // namespace lathe
