// What the catalogue writes for a GPU, read as text. tests/policy/cuda_catalog_test compiles it;
// bench/torch/check.py runs it.

#include <gmock/gmock.h>

#include "candidate/candidate.h"
#include "policy/catalog/compile.h"

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
  return *catalog::compile(*catalog::lower_for(task, {.cuda = true}), schedule, nullptr, {.cuda = true});
}

int steps_of(const catalog::Emission& emission) {
  return static_cast<int>(parse_candidate(emission.text, "t")->plan().steps.size());
}

TEST(GpuPatterns, ARowThatRegistersHoldIsReadBeforeItsFirstPass) {
  const TaskSpec task = over_rows("y = softmax(x)", 4096, 4096);
  const catalog::Emission kept = written_for(task);
  EXPECT_EQ(kept.schedule.at("g0.keep"), 2);  // 4096 = 2 * 512 threads * 4 elements
  EXPECT_THAT(kept.text, HasSubstr("k_x[u] = load("));
  EXPECT_THAT(written_for(task, {{"g0.keep", 0}}).text, Not(HasSubstr("k_x")));
}

TEST(GpuPatterns, ALongRowOfASoftmaxIsReadOnceForMaximumAndSum) {
  const TaskSpec task = over_rows("y = logsumexp(x, axis = 1)", 4096, 65536);
  EXPECT_THAT(written_for(task).text, HasSubstr("extend_softmax("));
  EXPECT_THAT(written_for(task, {{"g0.online", 0}}).text, Not(HasSubstr("extend_softmax(")));
}

TEST(GpuPatterns, FewRowsAndColumnsAreSharedByManyBlocks) {
  for (const char* graph : {"y = sum(x)", "y = sum(x, axis = 0)", "y = reduce_max(x, axis = 1)"}) {
    const bool columns = std::string(graph).find("axis = 0") != std::string::npos;
    const TaskSpec task = columns ? over_rows(graph, 1 << 20, 16) : over_rows(graph, 16, 1 << 20);
    const catalog::Emission shared = written_for(task);
    EXPECT_EQ(steps_of(shared), 2) << graph;
    EXPECT_THAT(shared.text, HasSubstr("quotient(item, shares)")) << graph;
    const catalog::Emission joined = written_for(task, {{"g0.join", 1}});
    EXPECT_EQ(steps_of(joined), 1) << graph << ": the last share joins all";
    EXPECT_THAT(joined.text, HasSubstr("is_last_share<")) << graph;
    EXPECT_THAT(joined.text, HasSubstr("init = \"counter\"")) << graph;
  }
  EXPECT_EQ(written_for(over_rows("y = sum(x, axis = 1)", 4096, 4096)).schedule.at("g0.depth"), 0)
      << "rows suffice";
}

TEST(GpuPatterns, NoAccumulatorAddsVeryManyTerms) {
  const auto depths = [](const char* graph, int rows, int cols) {
    return written_for(over_rows(graph, rows, cols)).space.at("g0.depth");
  };
  EXPECT_THAT(depths("y = sum(x, axis = 0)", 512, 64), testing::Contains(0));
  EXPECT_THAT(depths("y = sum(x, axis = 0)", 1 << 20, 64), Not(testing::Contains(0)));
  EXPECT_THAT(depths("y = sum(x)", 4096, 4096), Not(testing::Contains(0)));
  EXPECT_THAT(depths("y = sum(x)", 4096, 4096), testing::Each(testing::Le(1024)));
}

TEST(GpuPatterns, AVarianceOverColumnsReadsThemOnce) {
  const TaskSpec task = over_rows("y = var(x, axis = 0)", 65536, 2048);
  EXPECT_THAT(written_for(task).text, HasSubstr("extend(a_"));
  EXPECT_EQ(steps_of(written_for(task)), 2);
  const catalog::Emission twice = written_for(task, {{"g0.online", 0}});
  EXPECT_THAT(twice.text, Not(HasSubstr("extend(a_")));
  EXPECT_EQ(steps_of(twice), 3);
}

TEST(GpuPatterns, TheLogitOfALabelIsReadWithoutAPass) {
  const auto task = parse_task(
      "name = \"t\"\ndims = [\"rows\", \"cols\"]\ntensor = [{ name = \"x\", shape = [\"rows\", \"cols\"] }, "
      "{ name = \"labels\", shape = [\"rows\"], role = \"index\", gen = { kind = \"index\", limit = \"cols\" "
      "} "
      "}]\ngraph = \"y = cross_entropy(x, labels)\"\nshape = [{ rows = 1024, cols = 32768 }]\n",
      "t.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  const std::string text = written_for(*task).text;
  EXPECT_THAT(text, HasSubstr("= pick(p_x + ix0 * n_cols, "));
  EXPECT_THAT(text, Not(HasSubstr("lane_index()")));
}

TEST(GpuPatterns, RowsOfAMapShareWhatTheyHaveInCommon) {
  const TaskSpec task = over_rows("y = sub(x, x)", 4096, 4096);
  EXPECT_FALSE(written_for(task).space.contains("g0.rows")) << "nothing in common";
  const auto biased = parse_task(
      "name = \"t\"\ndims = [\"rows\", \"cols\"]\ntensor = [{ name = \"x\", shape = [\"rows\", \"cols\"] }, "
      "{ name = \"b\", shape = [\"cols\"] }]\ngraph = \"y = bias_add(x, b)\"\nshape = [{ rows = 4096, cols = "
      "4096 "
      "}]\n",
      "t.toml");
  ASSERT_TRUE(biased.ok()) << biased.error().to_string();
  const catalog::Emission map = written_for(*biased);
  EXPECT_EQ(map.schedule.at("g0.rows"), 4);
  EXPECT_LT(map.text.find("load(p_b"), map.text.find("load(p_x"));
}

TEST(GpuPatterns, FixedDimsAreCompiledInUnderNamesOfTheirOwn) {
  const TaskSpec task = over_rows("y = softmax(x)", 4096, 4096);
  const std::string text = written_for(task, {{"fixed", 1}}).text;
  const auto candidate = parse_candidate(text, "t");
  ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
  EXPECT_THAT(candidate->plan().constants, testing::ElementsAre("cols"));
  EXPECT_THAT(text, HasSubstr("enum : long long { fixed_cols = cols };\n#undef cols\n"));
  EXPECT_THAT(text, HasSubstr("constexpr int64_t n_cols = fixed_cols;"));
  EXPECT_THAT(text, Not(HasSubstr("int64_t n_cols,")));
  EXPECT_TRUE(parse_candidate(written_for(task).text, "t")->plan().constants.empty());
}

TEST(GpuPatterns, ChainedKernelsWaitBeforeTheyReadResults) {
  const TaskSpec task = over_rows("y = sum(x)", 1024, 1024);
  const std::string chained = written_for(task).text;
  EXPECT_THAT(chained, HasSubstr("programmatic = true"));
  EXPECT_THAT(chained, HasSubstr("wait_for_previous();"));
  // A promise that results never change would let the compiler read them before the wait.
  EXPECT_THAT(chained, HasSubstr("const float* p_s_g0_y"));
  EXPECT_THAT(chained, Not(HasSubstr("const float* __restrict__ p_s_g0_y")));
  EXPECT_THAT(written_for(task, {{"chain", 0}}).text, Not(HasSubstr("programmatic")));
}

TEST(GpuPatterns, TheProcessorsTextKnowsNothingOfAllThis) {
  const TaskSpec task = over_rows("y = softmax(x)", 4096, 4096);
  const std::string text = catalog::compile(*catalog::lower(task), {}, nullptr, {})->text;
  for (const char* word : {"reach", "kKept", "splits", "quotient", "__restrict__ p_s_"})
    EXPECT_THAT(text, Not(HasSubstr(word)));
}

}  // namespace
}  // namespace lathe
