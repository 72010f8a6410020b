#include "task/spans.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

using Spans = std::map<std::string, std::int64_t, std::less<>>;

Spans spans_of(std::string_view tensors, std::string_view graph) {
  return longest_spans(task_of("name = \"t\"\ndims = { N = [1, 64], H = [1, 64], W = [8, 64] }\ntensor = [" +
                               std::string(tensors) + "]\ngraph = \"\"\"\n" + std::string(graph) +
                               "\n\"\"\"\nshape = [{ name = \"base\", N = 16, H = 32, W = 32 }]\n"));
}

constexpr std::string_view kImage = "{ name = \"x\", shape = [\"1\", \"N\", \"H\", \"W\"] }";
constexpr std::string_view kMatrix = "{ name = \"x\", shape = [\"N\", \"H * W\"] }";

TEST(Spans, AWindowReachesAlongTheLastAxesAsFarAsItsDilation) {
  EXPECT_EQ(
      spans_of(kImage, "y = max_pool2d(x, kernel = [3, 2], stride = 1, padding = 1, dilation = [3, 1])"),
      (Spans{{"H", 7}, {"W", 2}}));
  EXPECT_EQ(spans_of(kImage, "y = unfold(x, kernel = 3, padding = 1)"), (Spans{{"H", 3}, {"W", 3}}));
  EXPECT_EQ(spans_of("{ name = \"x\", shape = [\"1\", \"9 * N\", \"H * W\"] }",
                     "y = fold(x, kernel = 3, padding = 1, size = [\"H\", \"W\"])"),
            (Spans{{"H", 3}, {"W", 3}}));
}

TEST(Spans, AConvolutionsWindowIsItsWeights) {
  const std::string tensors =
      std::string(kImage) + ", { name = \"w\", shape = [\"8\", \"N\", \"5\", \"1\"], role = \"parameter\" }";
  EXPECT_EQ(spans_of(tensors, "y = conv2d(x, w, padding = [2, 0])"), (Spans{{"H", 5}}));
}

TEST(Spans, ShiftsAndPaddingsAreOfTheirAxisAndCountOnceForEachOfItsDims) {
  EXPECT_EQ(spans_of(kMatrix, "y = roll(x, axis = 0, shift = -4)"), (Spans{{"N", 4}}));
  EXPECT_EQ(spans_of(kMatrix, "y = pad(x, before = 2, after = 6)"), (Spans{{"H", 6}, {"W", 6}}));
  EXPECT_EQ(spans_of(kMatrix, "a = roll(x, shift = 3)\ny = triu(a, diagonal = -5)"),
            (Spans{{"H", 5}, {"N", 5}, {"W", 5}}));
}

TEST(Spans, AnImageThatIsMadeOfAnotherReachesAsFarAsItsSize) {
  EXPECT_EQ(spans_of(kImage, "y = adaptive_max_pool2d(x, size = [7, 3])"), (Spans{{"H", 7}, {"W", 3}}));
  EXPECT_EQ(spans_of(kImage, "y = upsample_nearest2d(x, size = [\"2 * H\", 20])"), (Spans{{"W", 20}}));
}

TEST(Spans, WhatTakesElementsOneByOneHasNone) {
  EXPECT_EQ(spans_of(kMatrix, "a = relu(x)\ny = softmax(a, axis = -1)"), Spans{});
}

}  // namespace
}  // namespace lathe
