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
    const auto walk = space_->begin();
    std::vector<TakenChoice> taken;
    while (walk->site()) {
      const ChoiceSite site = *walk->site();
      ASSERT_GT(site.allowed.size(), 1U);
      const int value = site.allowed[rng.below(site.allowed.size())];
      ASSERT_TRUE(walk->take(value).ok());
      taken.emplace_back(site, value);
    }
    texts.insert(walk->text());
    const auto back = space_->decisions_of(walk->text());
    ASSERT_TRUE(back.ok()) << back.error().to_string();
    EXPECT_EQ(*back, taken);
  }
  EXPECT_GT(texts.size(), 2U);
}

TEST_P(ScheduleSpaces, UndecidedIsWhatTheCatalogueWritesFirst) {
  const auto first = propose_now(*make_catalog_policy(), {.context = context_, .count = 1});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(space_->begin()->text(), first->front().text);
}

TEST_P(ScheduleSpaces, NameTheKernelOfADecision) {
  const auto usual = space_->decisions_of(space_->begin()->text());
  ASSERT_TRUE(usual.ok()) << usual.error().to_string();
  bool of_kernel = false;
  for (const auto& [site, value] : *usual) {
    of_kernel = of_kernel || (site.kernel >= 0 && !site.pattern.empty() && site.traits[0] > 0);
    EXPECT_EQ(value, site.usual);
  }
  EXPECT_TRUE(of_kernel);
}

TEST_P(ScheduleSpaces, RefuseValuesThatAreNotAllowedAndTextsOfOthers) {
  const auto walk = space_->begin();
  const std::string before = walk->text();
  EXPECT_FALSE(walk->take(-77).ok());
  EXPECT_EQ(walk->text(), before);
  while (walk->site()) ASSERT_TRUE(walk->take(walk->site()->usual).ok());
  EXPECT_FALSE(walk->take(1).ok());
  EXPECT_FALSE(space_->decisions_of("no candidate").ok());
  EXPECT_FALSE(space_->decisions_of(before + "\n").ok());
}

}  // namespace
}  // namespace lathe
