#include "task/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

std::optional<Sample> draw(std::string_view graph, Distribution distribution) {
  const TaskSpec spec = task_of(
      "name = \"t\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"n\"] }]\ngraph = '''\n" +
      std::string(graph) + "\n'''\nshape = [{ n = 64 }]\n");
  const auto reference = make_reference(spec);
  auto sample = draw_sample(**reference, bind_first(spec), distribution, Seed::from_number(1));
  EXPECT_TRUE(sample.ok());
  return *std::move(sample);
}

double largest_input(const Sample& sample) {
  double largest = 0;
  for (const double x : sample.inputs[0].decode()) largest = std::max(largest, std::fabs(x));
  return largest;
}

TEST(Sample, LargeInputsHaveRowsOfEqualValues) {
  const auto sample = draw("y = relu(x)", Distribution::kLarge);
  ASSERT_TRUE(sample);
  EXPECT_GT(largest_input(*sample), 200);
  const std::vector<double> x = sample->inputs[0].decode();
  int equal = 0;
  for (std::size_t row = 0; row < 64; ++row)
    equal += std::set<double>(x.begin() + static_cast<std::ptrdiff_t>(64 * row),
                              x.begin() + static_cast<std::ptrdiff_t>(64 * row + 64))
                 .size() == 1;
  EXPECT_GT(equal, 5);
  EXPECT_LT(equal, 40);
}

TEST(Sample, OffsetInputsHaveOneMeanFarAboveTheSpread) {
  const auto sample = draw("y = relu(x)", Distribution::kOffset);
  ASSERT_TRUE(sample);
  const auto [low, high] = std::ranges::minmax(sample->inputs[0].decode());
  EXPECT_GT(std::min(std::fabs(low), std::fabs(high)), 200);
  EXPECT_LT(high - low, 10);
}

TEST(Sample, InputsReachNoFartherThanAKernelsValuesCan) {
  const auto sample = draw("e = exp(x)\ny = log(e)", Distribution::kLarge);
  ASSERT_TRUE(sample);
  EXPECT_LT(largest_input(*sample), 88);
}

TEST(Sample, ThereIsNoneWhereEvenSmallOnesReachTooFar) {
  EXPECT_FALSE(draw("a = exp(x)\nb = exp(a)\nc = exp(b)\ny = log(c)", Distribution::kOffset));
  EXPECT_TRUE(draw("y = exp(x)", Distribution::kNormal));
}

TEST(Sample, SaysWhichElementsAreSumsOfTheirOwn) {
  const auto own = [](std::string_view graph, Distribution distribution = Distribution::kNormal) {
    return draw(graph, distribution)->expected[0].independent_sums;
  };
  EXPECT_TRUE(own("y = matmul(x, x)"));
  EXPECT_TRUE(own("p = matmul(x, x)\nt = transpose(p)\nq = matmul(t, x)\ny = gelu(q)"));
  EXPECT_FALSE(own("y = relu(x)")) << "not sums";
  EXPECT_FALSE(own("y = softmax(x)")) << "a row shares one";
  EXPECT_FALSE(own("s = softmax(x)\ny = matmul(s, x)"));
  EXPECT_FALSE(own("p = matmul(x, x)\ns = sum(x, axis = 1, keepdims = true)\ny = add(p, s)"));
  EXPECT_FALSE(own("y = matmul(x, x)", Distribution::kCancellation)) << "values with a structure";
}

TEST(Sample, OfANativeReferenceIsNeverExtreme) {
  TaskSpec spec = task_of(kLinearTask);
  const auto reference = make_reference(spec);
  const BoundTask task = bind_first(spec);
  spec.nodes.clear();
  EXPECT_FALSE(*draw_sample(**reference, task, Distribution::kLarge, Seed::from_number(1)));
}

}  // namespace
}  // namespace lathe
