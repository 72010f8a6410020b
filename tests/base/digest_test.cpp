#include "base/digest.h"

#include <gtest/gtest.h>

#include <set>

namespace lathe {
namespace {

TEST(Digest, EqualTextsHaveEqualNames) {
  EXPECT_EQ(digest_of("kernel"), digest_of("kernel"));
  EXPECT_NE(digest_of("kernel"), digest_of("kernel "));
  EXPECT_NE(digest_of(""), digest_of(std::string_view("\0", 1)));
}

TEST(Digest, HexGoesThereAndBack) {
  const Digest digest = digest_of("x");
  ASSERT_EQ(digest.hex().size(), 64u);
  EXPECT_EQ(*Digest::from_hex(digest.hex()), digest);
  EXPECT_EQ(digest.short_hex(), digest.hex().substr(0, 12));
}

TEST(Digest, RefusesWhatIsNoDigest) {
  const std::string good = digest_of("x").hex();
  for (const std::string& text :
       {std::string(), std::string("zz"), good.substr(1), good + "0", "g" + good.substr(1)}) {
    const auto digest = Digest::from_hex(text);
    ASSERT_FALSE(digest.ok()) << text;
    EXPECT_NE(digest.error().hint, "");
  }
}

TEST(Hasher, KnowsWhereAFieldEnds) {
  EXPECT_NE(Hasher().add("ab").add("c").finish(), Hasher().add("a").add("bc").finish());
  EXPECT_NE(Hasher().add("ab").finish(), Hasher().add("ab").add("").finish());
  EXPECT_EQ(Hasher().add("ab").finish(), digest_of("ab"));
}

TEST(Hasher, TellsNumbersApart) {
  std::set<Digest> seen;
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, INT64_MAX, INT64_MIN})
    seen.insert(Hasher().add(number).finish());
  EXPECT_EQ(seen.size(), 5u);
}

}  // namespace
}  // namespace lathe
