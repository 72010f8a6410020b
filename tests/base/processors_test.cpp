#include "base/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lathe {
namespace {

using testing::ElementsAre;

TEST(ProcessorsTest, BesidesLeavesTheOrder) {
  EXPECT_THAT(processors_besides(std::vector{4, 1, 3}, std::vector{1}), ElementsAre(4, 3));
}

TEST(ProcessorsTest, ACoreIsNamedByItsLowestProcessor) {
  const std::vector<int> processors = usable_processors(), cores = cores_of(processors);
  ASSERT_EQ(cores.size(), processors.size());
  for (std::size_t i = 0; i < cores.size(); ++i) EXPECT_LE(cores[i], processors[i]);
}

TEST(ProcessorsTest, AProcessorThatTheSystemDoesNotKnowIsACore) {
  EXPECT_THAT(cores_of(std::vector{100000}), ElementsAre(100000));
}

TEST(ProcessorsTest, APlacementEndsWithItsObject) {
  const std::vector<int> before = usable_processors();
  {
    const ThreadPlacement placement(std::vector{before.front()});
    EXPECT_THAT(usable_processors(), ElementsAre(before.front()));
  }
  EXPECT_EQ(usable_processors(), before);
}

}  // namespace
}  // namespace lathe
