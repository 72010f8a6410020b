#include "record/json_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace lathe {
namespace {

TEST(JsonLines, AreVisitedInTurnWithoutEmptyOnesAndTheLastNeedsNoEnd) {
  std::vector<int> seen;
  const Status read =
      for_each_json_line("1\n\n2\n3", "numbers.jsonl", [&](const nlohmann::json& value) -> Status {
        seen.push_back(value.get<int>());
        return Ok{};
      });
  EXPECT_TRUE(read.ok());
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
}

TEST(JsonLines, TheFirstErrorOfTextOrVisitorIsAtItsLine) {
  int visits = 0;
  const auto visit = [&](const nlohmann::json& value) -> Status {
    ++visits;
    if (value == 2) return invalid("two", "take three");
    return Ok{};
  };
  const Status broken = for_each_json_line("1\n\n{\n4", "a.jsonl", visit);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().where.line, 3);
  EXPECT_EQ(visits, 1);
  const Status refused = for_each_json_line("1\n2\n3", "a.jsonl", visit);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().to_string(), "a.jsonl:2: two\n  hint: take three");
}

}  // namespace
}  // namespace lathe
