#include "contest/retrieval.h"

#include <gmock/gmock.h>

#include "base/output.h"
#include "policy/catalog/catalog.h"
#include "policy/catalog/schedule_language.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

std::shared_ptr<const TaskSpec> task_of(const std::string& graph, const std::string& name = "t",
                                        const std::string& tensor = "x", const std::string& dim = "n",
                                        int extent = 1024) {
  auto task =
      parse_task("name = \"" + name + "\"\ndims = { " + dim + " = [1, 4096] }\ntensor = [{ name = \"" +
                     tensor + "\", shape = [\"" + dim + "\"] }]\ngraph = \"\"\"\n" + graph +
                     "\n\"\"\"\nshape = [{ name = \"s\", " + dim + " = " + std::to_string(extent) + " }]\n",
                 name + ".toml");
  EXPECT_TRUE(task.ok()) << task.error().to_string();
  return std::make_shared<const TaskSpec>(*std::move(task));
}

const PolicyContext& on_cpu(PolicyContext& context, std::shared_ptr<const TaskSpec> task) {
  context.task = std::move(task);
  context.device.name = "cpu";
  return context;
}

TEST(Distance, CountsOperationsBeforeTheirOrderBeforeExtents) {
  const auto task = task_of("v = relu(x)\ny = tanh(v)");
  EXPECT_EQ(distance(*task, *task), TaskDistance{});
  const auto swapped = task_of("v = tanh(x)\ny = relu(v)");
  const auto longer = task_of("v = relu(x)\nw = tanh(v)\ny = exp(w)");
  const auto larger = task_of("v = relu(x)\ny = tanh(v)", "t", "x", "n", 4096);
  EXPECT_LT(distance(*task, *larger), distance(*task, *swapped));
  EXPECT_LT(distance(*task, *swapped), distance(*task, *longer));
  EXPECT_DOUBLE_EQ(distance(*task, *larger).extents, 2);
  EXPECT_NEAR(distance(*task, *longer).operations, 1.0 / 3, 1e-12);
}

TEST(Retrieval, RewritesNamesAndDimsOfTheNearestKernel) {
  const auto known = task_of("y = relu(x)", "known");
  const auto asked = task_of("out = relu(data)", "asked", "data", "count");
  const std::string kernel =
      "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\n"
      "void f(const float* x, float* y, int64_t n) { at.x = x[n]; }\n";
  const auto policy =
      make_retrieval_policy({{task_of("v = exp(x)\ny = tanh(v)", "far"), {"```cpp\nfar\n```"}},
                             {known, {"```cpp\n" + kernel + "```"}}},
                            kernel_language());
  PolicyContext context;
  const auto proposals = propose_now(*policy, {.context = on_cpu(context, asked), .count = 2});
  ASSERT_TRUE(proposals.ok());
  ASSERT_EQ(proposals->size(), 2u);
  EXPECT_THAT((*proposals)[0].text, HasSubstr("items = \"count\"\nargs = [\"data\", \"out\", \"count\"]"));
  EXPECT_THAT((*proposals)[0].text, HasSubstr("{ at.x = data[count]; }"));
  EXPECT_EQ((*proposals)[0].lineage.description, "from known");
}

TEST(Retrieval, CarriesKnobsToKernelsOfTheSamePattern) {
  const auto known = task_of("v = relu(x)\ny = tanh(v)", "known");
  const auto asked = task_of("y = exp(x)", "asked");
  const auto policy =
      make_retrieval_policy({{known, {"fuse=0\nmap unroll=1\nmap unroll=2"}}}, make_schedule_language());
  PolicyContext context;
  const auto proposals = propose_now(*policy, {.context = on_cpu(context, asked), .count = 4});
  ASSERT_TRUE(proposals.ok());
  ASSERT_EQ(proposals->size(), 1u);
  EXPECT_FALSE((*proposals)[0].unreadable);
  EXPECT_THAT((*proposals)[0].text, HasSubstr("g0.unroll=1"));
}

TEST(Retrieval, ReadsFirstAnswersWithTheirTasks) {
  const TemporaryFolder folder;
  const auto known = task_of("y = relu(x)", "known");
  ASSERT_TRUE(make_directories(folder.path() + "/tasks/train").ok());
  ASSERT_TRUE(write_output(folder.path() + "/tasks/train/known.toml", known->text).ok());
  ASSERT_TRUE(write_output(folder.path() + "/train.schedule.jsonl",
                           "{\"kind\":\"first\",\"task_name\":\"known\",\"prompt\":\"p\",\"answer\":\"a\"}\n"
                           "{\"kind\":\"better\",\"task_name\":\"known\",\"prompt\":\"p\",\"answer\":\"b\"}\n"
                           "{\"kind\":\"first\",\"task_name\":\"known\",\"prompt\":\"p\",\"answer\":\"c\"}\n")
                  .ok());
  const auto learned = read_learned_tasks(folder.path(), *make_schedule_language());
  ASSERT_TRUE(learned.ok()) << learned.error().to_string();
  ASSERT_EQ(learned->size(), 1u);
  EXPECT_EQ((*learned)[0].answers, (std::vector<std::string>{"a", "c"}));
  ASSERT_TRUE(write_output(folder.path() + "/train.schedule.jsonl",
                           "{\"kind\":\"first\",\"task_name\":\"../x\",\"answer\":\"a\"}\n")
                  .ok());
  EXPECT_FALSE(read_learned_tasks(folder.path(), *make_schedule_language()).ok());
}

}  // namespace
}  // namespace lathe
