#include "data/dataset.h"

#include <gmock/gmock.h>

#include "base/fd.h"

namespace lathe {
namespace {

using testing::HasSubstr;

TEST(DataFile, IsNamedByItsSplitAndLanguage) {
  EXPECT_EQ(data_file_name(Split::kTrain, "kernel"), "train.jsonl");
  EXPECT_EQ(data_file_name(Split::kShapes, "schedule"), "shapes.schedule.jsonl");
}

TEST(ScheduleRecipe, TrainsUnderTheSystemMessageThatOptimizeSends) {
  std::string system = *read_file(LATHE_SOURCE_DIR "/prompts/system_schedule.txt");
  system.resize(system.find_last_not_of('\n') + 1);
  EXPECT_THAT(*read_file(LATHE_SOURCE_DIR "/recipes/sft/schedule.toml"),
              HasSubstr("system = \"\"\"\n" + system + "\"\"\""));
}

}  // namespace
}  // namespace lathe
