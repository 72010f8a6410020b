#include "gym/preparation_memory.h"

#include <gmock/gmock.h>

#include "task/slices.h"
#include "task/spec.h"

namespace lathe {
namespace {

TaskSpec task_of(const std::string& shape, const std::string& graph) {
  auto task = parse_task("name = \"t\"\ndims = [\"N\"]\ntensor = [{ name = \"a\", shape = [" + shape +
                             "] }]\ngraph = \"" + graph + "\"\nshape = [{ N = 384 }]\n",
                         "t.toml");
  EXPECT_TRUE(task.ok()) << task.error().to_string();
  return *std::move(task);
}

std::vector<BenchShape> scored_shapes(const TaskSpec& task) {
  std::vector<BenchShape> shapes(1);
  shapes[0].name = "N=384";
  shapes[0].task = *lathe::bind(task, task.shapes[0].dims);
  return shapes;
}

constexpr std::int64_t kGigabyte = 1'000'000'000;

TEST(PreparationMemory, OfASmallTaskIsSmall) {
  const TaskSpec task = task_of("\"N\", \"N\"", "y = relu(a)");
  EXPECT_LT(preparation_bytes(**make_reference(task), scored_shapes(task), 2), 1e8);
}

/// 384 cubed values: 0.9 GB a reference.
TEST(PreparationMemory, CountsWhatAReferenceTakes) {
  const TaskSpec task = task_of("\"N\", \"N\"", "y = diag(a)");
  const auto reference = make_reference(task);
  const double one = preparation_bytes(**reference, scored_shapes(task), 1),
               four = preparation_bytes(**reference, scored_shapes(task), 4);
  EXPECT_GT(one, 4e9);
  EXPECT_LT(one, 9e9);
  EXPECT_NEAR(four - one, 3 * 0.9e9, 3e8);
}

TEST(PreparationMemory, IsRefusedWhereItIsNotThere) {
  const TaskSpec task = task_of("\"N\", \"N\"", "y = diag(a)");
  const auto reference = make_reference(task);
  EXPECT_TRUE(check_preparation_memory(**reference, scored_shapes(task), 2, 20 * kGigabyte).ok());
  const Status refused = check_preparation_memory(**reference, scored_shapes(task), 2, 2 * kGigabyte);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().to_string(),
              testing::AllOf(testing::HasSubstr("2 GB are there"), testing::HasSubstr("N=384"),
                             testing::HasSubstr("lathe tasks show")));
}

}  // namespace
}  // namespace lathe
