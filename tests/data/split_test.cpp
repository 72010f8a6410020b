#include "data/split.h"

#include <gtest/gtest.h>

#include "task/generate/generate.h"

namespace lathe {
namespace {

TaskSpec parsed(const std::string& text) {
  auto task = parse_task(text, "t.toml");
  EXPECT_TRUE(task.ok()) << task.error().to_string();
  return *std::move(task);
}

TEST(Composition, LeavesOutExtentsNamesAndOrder) {
  const TaskSpec one = parsed(
      "name = \"a\"\ndims = { n = [1, 64] }\ntensor = [{ name = \"x\", shape = [\"n\"] }]\n"
      "graph = \"\"\"\nv = relu(x)\ny = add(v, x)\n\"\"\"\nshape = [{ name = \"s\", n = 16 }]\n");
  const TaskSpec other = parsed(
      "name = \"b\"\ndims = { k = [1, 99] }\ntensor = [{ name = \"q\", shape = [\"k\"] }]\n"
      "graph = \"\"\"\nw = add(q, q)\nz = relu(w)\n\"\"\"\nshape = [{ name = \"s\", k = 32 }]\n");
  EXPECT_EQ(composition_of(one), "add+relu");
  EXPECT_EQ(composition_of(one), composition_of(other));
}

TEST(Composition, IsHeldOutOrNotForAllItsTasks) {
  int held_out = 0;
  for (int i = 0; i < 10'000; ++i) held_out += is_held_out("relu+" + std::to_string(i));
  EXPECT_NEAR(held_out, 1500, 150);
  EXPECT_EQ(is_held_out("add+relu"), is_held_out("add+relu"));
}

TEST(Reshape, GivesASoundTaskOfTheSameCompositionWithOtherExtents) {
  const TaskSpec task = parsed(*generate_task(103));
  Rng rng(Seed::from_number(1));
  const auto text = reshape(task, rng, "other");
  ASSERT_TRUE(text.ok()) << text.error().to_string();
  const TaskSpec reshaped = parsed(*text);
  EXPECT_EQ(composition_of(reshaped), composition_of(task));
  EXPECT_EQ(reshaped.name, "other");
  EXPECT_NE(reshaped.shapes.front().dims, task.shapes.front().dims);
  for (const auto& [dim, extent] : reshaped.shapes.front().dims) {
    EXPECT_LE(extent, task.shapes.front().dims.at(dim));
    EXPECT_GE(extent, task.dim_ranges.at(dim).low);
  }
}

}  // namespace
}  // namespace lathe
