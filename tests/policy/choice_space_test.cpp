#include "policy/catalog/choice_space.h"

#include <gmock/gmock.h>

#include <set>

#include "policy/catalog/catalog.h"
#include "task/spec.h"

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

PolicyContext context_of(const std::string& name, Dialect dialect) {
  auto task = load_task(LATHE_SOURCE_DIR "/tasks/" + name + ".toml");
  EXPECT_TRUE(task.ok()) << task.error().to_string();
  PolicyContext context{.task = std::make_shared<const TaskSpec>(*std::move(task))};
  context.device.dialect = dialect;
  context.device.threads = 1;
  return context;
}

class ScheduleSpaces : public testing::TestWithParam<std::tuple<const char*, Dialect>> {
 protected:
  void SetUp() override {
    context_ = context_of(std::get<0>(GetParam()), std::get<1>(GetParam()));
    auto space = make_schedule_space(context_);
    ASSERT_TRUE(space.ok()) << space.error().to_string();
    space_ = *std::move(space);
  }

  std::vector<int> draw(Rng& rng) {
    std::vector<int> taken;
    for (;;) {
      const auto site = space_->next(taken);
      EXPECT_TRUE(site.ok()) << site.error().to_string();
      if (!site.ok() || !*site) return taken;
      EXPECT_GT((*site)->allowed.size(), 1U);
      taken.push_back((*site)->allowed[rng.below((*site)->allowed.size())]);
    }
  }

  PolicyContext context_;
  std::unique_ptr<ChoiceSpace> space_;
};

INSTANTIATE_TEST_SUITE_P(Tasks, ScheduleSpaces,
                         testing::Combine(testing::Values("layer_norm", "bias_gelu_scale", "matmul_row_sum"),
                                          testing::Values(Dialect::kCpu, Dialect::kCuda)));

TEST_P(ScheduleSpaces, AnyWalkEndsInAKernelThatTellsItsChoices) {
  Rng rng(Seed::from_number(7));
  std::set<std::string> texts;
  for (int i = 0; i < 8; ++i) {
    const std::vector<int> taken = draw(rng);
    const auto text = space_->text(taken);
    ASSERT_TRUE(text.ok()) << text.error().to_string();
    texts.insert(*text);
    const auto back = space_->choices_of(*text);
    ASSERT_TRUE(back.ok()) << back.error().to_string();
    EXPECT_EQ(*back, taken);
  }
  EXPECT_GT(texts.size(), 2U);
}

TEST_P(ScheduleSpaces, UndecidedIsWhatTheCatalogueWritesFirst) {
  const auto first = propose_now(*make_catalog_policy(), {.context = context_, .count = 1});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(space_->text({}).value(), first->front().text);
}

TEST_P(ScheduleSpaces, NameTheKernelOfADecision) {
  const auto site = space_->next(space_->choices_of(space_->text({}).value()).value());
  EXPECT_EQ(site.value(), std::nullopt);
  std::vector<int> taken;
  bool of_kernel = false;
  for (auto next = space_->next(taken); next.ok() && *next; next = space_->next(taken)) {
    of_kernel = of_kernel || ((*next)->kernel >= 0 && !(*next)->pattern.empty() && (*next)->traits[0] > 0);
    taken.push_back((*next)->usual);
  }
  EXPECT_TRUE(of_kernel);
}

TEST_P(ScheduleSpaces, RefuseValuesThatAreNotAllowedAndTextsOfOthers) {
  const std::vector<int> never = {-77};
  EXPECT_FALSE(space_->next(never).ok());
  EXPECT_FALSE(space_->text(never).ok());
  EXPECT_FALSE(space_->choices_of("no candidate").ok());
}

}  // namespace
}  // namespace lathe
