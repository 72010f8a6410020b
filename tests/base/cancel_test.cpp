#include "base/cancel.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(CancelToken, CopiesShareTheFlag) {
  const CancelToken token;
  const CancelToken copy = token;
  EXPECT_FALSE(copy.cancelled());
  token.cancel();
  EXPECT_TRUE(copy.cancelled());
  EXPECT_FALSE(CancelToken().cancelled());
}

TEST(CancelToken, AChildIsCancelledWithItsParentButNotTheOtherWayRound) {
  const CancelToken parent;
  const CancelToken one = parent.child(), other = parent.child();
  one.cancel();
  EXPECT_FALSE(parent.cancelled());
  EXPECT_FALSE(other.cancelled());
  parent.cancel();
  EXPECT_TRUE(other.cancelled());
}

}  // namespace
}  // namespace lathe
