#include "search/archive.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

Experience evaluated(const std::string& text, double low, Outcome outcome = Outcome::kPass,
                     Depth depth = Depth::kScreen) {
  Experience experience;
  experience.candidate = digest_of(text);
  experience.candidate_text = text;
  experience.verdict.outcome = outcome;
  experience.verdict.depth = depth;
  experience.verdict.speedups = {{"library", "", {low, low + 0.1, low + 0.2}}};
  return experience;
}

TEST(Archive, RanksByTheLowerBoundOverTheBestPeer) {
  Archive archive("library");
  Experience wide = evaluated("wide", 1.0);
  wide.verdict.speedups[0].ratio = {1.0, 3.0, 9.0};
  archive.add(wide, {0});
  archive.add(evaluated("narrow", 1.5), {0});
  ASSERT_EQ(archive.best(5).size(), 2u);
  EXPECT_EQ(archive.best(5)[0]->candidate_text, "narrow");
  EXPECT_EQ(archive.best(1).size(), 1u);
}

TEST(Archive, WhatDidNotPassHasNoFitnessAndNoCell) {
  Archive archive("library");
  for (const Outcome outcome : {Outcome::kWrong, Outcome::kTampered, Outcome::kCrash, Outcome::kInfra})
    archive.add(evaluated("failed", 9, outcome), {0});
  EXPECT_TRUE(archive.elites().empty());
  EXPECT_TRUE(archive.best(3).empty());
  EXPECT_EQ(archive.all().size(), 4u);
  EXPECT_TRUE(archive.tried(digest_of("failed"))) << "it is not tried again";
}

TEST(Archive, KeepsTheFittestOfEachCellBestFirst) {
  Archive archive("library");
  archive.add(evaluated("a1", 1.0), {0, 1});
  archive.add(evaluated("a2", 2.0), {0, 1});
  archive.add(evaluated("a3", 1.5), {0, 1});
  archive.add(evaluated("b", 3.0), {2});
  const auto elites = archive.elites();
  ASSERT_EQ(elites.size(), 2u);
  EXPECT_EQ(elites[0]->candidate_text, "b");
  EXPECT_EQ(elites[1]->candidate_text, "a2");
}

TEST(Archive, ConfirmationsDoNotCompeteWithScreens) {
  Archive archive("library");
  archive.add(evaluated("a", 1.0), {0});
  archive.add(evaluated("a", 1.2, Outcome::kPass, Depth::kFinal), {0});
  ASSERT_EQ(archive.best(3).size(), 1u);
  EXPECT_EQ(archive.best(3)[0]->verdict.depth, Depth::kScreen);
}

TEST(Archive, WhatWasWrittenTwiceTakesOnePlace) {
  Archive archive("library");
  archive.add(evaluated("a", 1.0), {0});
  archive.add(evaluated("a", 1.1), {0});
  archive.add(evaluated("b", 0.9), {0});
  const auto best = archive.best(2);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0]->verdict.speedups[0].ratio.low, 1.1);
  EXPECT_EQ(best[1]->candidate_text, "b");
}

TEST(Archive, PointersOutliveLaterAdditions) {
  Archive archive("library");
  archive.add(evaluated("first", 9.0), {0});
  const Experience* first = archive.best(1)[0];
  for (int i = 0; i < 1000; ++i) archive.add(evaluated("other" + std::to_string(i), 1.0), {1});
  EXPECT_EQ(archive.best(1)[0], first);
}

}  // namespace
}  // namespace lathe
