#include "rl/table.h"

#include <gmock/gmock.h>

#include "policy/catalog/choice_space.h"
#include "task/spec.h"
#include "tests/rl/made_up_table.h"

namespace lathe::rl {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::SizeIs;

const ChoiceSite kUnroll{.kernel = 0, .pattern = "map", .knob = "unroll", .allowed = {1, 2, 4}, .usual = 2};
const ChoiceSite kStream{.kernel = 0, .pattern = "map", .knob = "stream", .allowed = {0, 1}, .usual = 0};

TableRow row(std::vector<TableRow::Choice> choices, double speedup = 1) {
  return {.choices = std::move(choices), .outcome = Outcome::kPass, .speedup = {speedup, speedup, speedup}};
}

Result<TableTask> task_of(std::vector<TableRow> rows) {
  return TableTask::make({"t", "map", digest_of("t"), "naive"}, {kUnroll, kStream}, std::move(rows));
}

TEST(TableTask, IsATreeOfWhatWasMeasured) {
  const auto task = task_of({row({{0, 0}, {1, 0}}), row({{0, 0}, {1, 1}}), row({{0, 2}, {1, 1}})});
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  ASSERT_THAT(task->nodes(), SizeIs(3));
  EXPECT_THAT(task->nodes()[0].next, SizeIs(2));
  EXPECT_THAT(task->nodes()[1].next, SizeIs(2));
  EXPECT_EQ(task->find("0:2 1:1"), &task->rows()[2]);
  EXPECT_EQ(task->find("0:1 1:1"), nullptr);
}

TEST(TableTask, TheUsualRowTakesUsualValuesWhereTheyWereMeasured) {
  EXPECT_EQ(task_of({row({{0, 0}, {1, 1}}), row({{0, 1}, {1, 1}})})->usual().text(), "0:1 1:1");
  EXPECT_EQ(task_of({row({{0, 2}, {1, 0}}), row({{0, 2}, {1, 1}})})->usual().text(), "0:2 1:0");
}

TEST(TableTask, RefusesWhatIsNoTree) {
  EXPECT_FALSE(task_of({}).ok());
  EXPECT_FALSE(task_of({row({{0, 0}}), row({{0, 0}})}).ok());          // twice
  EXPECT_FALSE(task_of({row({{0, 0}}), row({{1, 1}})}).ok());          // two first decisions
  EXPECT_FALSE(task_of({row({{0, 0}}), row({{0, 0}, {1, 1}})}).ok());  // ends and goes on
  EXPECT_FALSE(task_of({row({{0, 0}, {1, 1}}), row({{0, 0}})}).ok());
  EXPECT_FALSE(task_of({row({{0, 3}})}).ok());  // no such value
  EXPECT_FALSE(task_of({row({{2, 0}})}).ok());  // no such site
}

TEST(ParseTable, ReadsWhatWasWritten) {
  const ScheduleTable table = made_up_table(3);
  const auto read = parse_table(to_text(table));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(to_text(*read), to_text(table));
  EXPECT_EQ(read->tasks[1].sites(), table.tasks[1].sites());
}

/// Two rows with the texts that a language model would write.
Result<TableTask> written(const std::string& prompt, const std::string& first, const std::string& second) {
  std::vector<TableRow> rows = {row({{0, 0}}), row({{0, 1}})};
  rows[0].schedule = first, rows[1].schedule = second;
  TableTaskId id{"t", "map", digest_of("t"), "naive"};
  id.system = "You choose.", id.prompt = prompt;
  return TableTask::make(std::move(id), {kUnroll}, std::move(rows));
}

TEST(TableTask, FindsARowByItsSchedule) {
  const auto task = written("Which?", "unroll=1", "unroll=2");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  EXPECT_TRUE(task->is_written());
  EXPECT_EQ(task->find("unroll=2"), &task->rows()[1]);
  EXPECT_EQ(task->find("0:1"), &task->rows()[1]);
  EXPECT_EQ(task->find("unroll=4"), nullptr);
  EXPECT_FALSE(task_of({row({{0, 0}})})->is_written());
}

TEST(TableTask, HasPromptAndAllSchedulesOrNoneOfBoth) {
  EXPECT_FALSE(written("Which?", "unroll=1", "").ok());
  EXPECT_FALSE(written("", "unroll=1", "unroll=2").ok());
  EXPECT_FALSE(written("Which?", "unroll=1", "unroll=1").ok());
}

TEST(ParseTable, ReadsPromptsAndSchedules) {
  ScheduleTable table{.device = "d", .tasks = {}};
  table.tasks.push_back(*written("Which\none?", "unroll=1\nstream=0", "unroll=2\nstream=0"));
  const auto read = parse_table(to_text(table));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(to_text(*read), to_text(table));
  EXPECT_EQ(read->tasks[0].id().system, "You choose.");
  EXPECT_EQ(read->tasks[0].id().prompt, "Which\none?");
  EXPECT_EQ(read->tasks[0].rows()[1].schedule, "unroll=2\nstream=0");
}

TEST(ParseTable, NamesTheLineThatIsWrong) {
  const std::string good = to_text(made_up_table(1));
  const auto error_of = [](const std::string& text) {
    const auto read = parse_table(text);
    return read.ok() ? "none" : read.error().message;
  };
  EXPECT_THAT(error_of(""), HasSubstr("without tasks"));
  EXPECT_THAT(error_of("[]\n"), HasSubstr("line 1"));
  EXPECT_THAT(error_of(R"({"format":"other","version":1,"device":"x"})"), HasSubstr("line 1"));
  EXPECT_THAT(error_of(good + "{}\n"), HasSubstr("line 3"));
  EXPECT_THAT(error_of(good.substr(0, good.size() / 2)), HasSubstr("line 2"));
  std::string negative = good;
  negative.replace(negative.find("\"speedup\":[0."), 13, "\"speedup\":[-0.");
  EXPECT_THAT(error_of(negative), HasSubstr("interval"));
}

TEST(ParseTable, TakesWholeNumbersInRangeAlone) {
  const std::string good = to_text(made_up_table(1));
  const auto error_with = [&](const std::string& field, const std::string& number) {
    std::string text = good;
    const std::size_t from = text.find(field) + field.size();
    text.replace(from, text.find_first_of(",]}", from) - from, number);
    const auto read = parse_table(text);
    return read.ok() ? "none" : read.error().message;
  };
  for (const char* field : {"\"version\":", "\"kernel\":", "\"usual\":", "\"allowed\":[", "\"choices\":[["})
    for (const char* number : {"4.4e45", "1.5", "18446744073709551616", "-9223372036854775808", "true"})
      EXPECT_THAT(error_with(field, number), HasSubstr("whole number")) << field << number;
}

TEST(TableGym, ReplaysVerdictsWithTheirLuck) {
  const ScheduleTable table = made_up_table(2, 0.05);
  TableGym gym(table);
  const TableRow& known = table.tasks[1].rows()[5];
  const std::string text = known.text();
  std::vector<double> lows;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const Gym::Question question{1, text};
    const auto verdicts = gym.judge(std::span(&question, 1), Seed::from_number(i));
    ASSERT_TRUE(verdicts.ok());
    const Interval speedup = *verdicts->front().speedup("naive");
    EXPECT_NEAR(speedup.high / speedup.low, known.speedup.high / known.speedup.low, 1e-9);
    lows.push_back(speedup.low / known.speedup.low);
  }
  EXPECT_NEAR(mean(lows), 1, 0.01);
  EXPECT_THAT(stddev(lows), AllOf(Ge(0.02), Le(0.03)));  // half-widths are 1.96 deviations
}

TEST(TableGym, ToldTheSameSeedTellsTheSame) {
  const ScheduleTable table = made_up_table(1);
  TableGym gym(table);
  const std::string text = table.tasks[0].rows()[3].text();
  const std::vector<Gym::Question> questions = {{0, text}, {0, text}};
  const auto a = gym.judge(questions, Seed::from_number(1)), b = gym.judge(questions, Seed::from_number(1));
  EXPECT_EQ((*a)[0].speedup("naive")->low, (*b)[0].speedup("naive")->low);
  EXPECT_NE((*a)[0].speedup("naive")->low, (*a)[1].speedup("naive")->low);
}

TEST(TableGym, HasNoVerdictForWhatWasNotMeasured) {
  const ScheduleTable table = made_up_table(1);
  TableGym gym(table);
  const Gym::Question question{0, "9:9"};
  EXPECT_FALSE(gym.judge(std::span(&question, 1), {}).ok());
}

TEST(Tabulate, TakesEachKernelOfTheCatalogueOnce) {
  auto spec = load_task(LATHE_SOURCE_DIR "/tasks/layer_norm.toml");
  ASSERT_TRUE(spec.ok());
  PolicyContext context{.task = std::make_shared<const TaskSpec>(*std::move(spec))};
  const auto space = make_schedule_space(context);
  ASSERT_TRUE(space.ok());
  std::vector<Experience> experiences;
  const auto add = [&](std::string text, Outcome outcome, double speedup) {
    Experience& experience = experiences.emplace_back();
    experience.task = context.task->digest;
    experience.candidate_text = std::move(text);
    experience.verdict.outcome = outcome;
    experience.verdict.speedups.push_back(
        {.baseline = "naive", .shape = "s", .ratio = {0.9 * speedup, speedup, 1.1 * speedup}});
  };
  const auto first = (*space)->begin()->site();
  ASSERT_TRUE(first);
  for (const int value : first->allowed) {
    const auto walk = (*space)->begin();
    ASSERT_TRUE(walk->take(value).ok());
    add(walk->text(), Outcome::kPass, value + 2);
  }
  const std::size_t distinct = experiences.size();
  add(experiences.front().candidate_text, Outcome::kPass, 9);
  add("not the catalogue's", Outcome::kPass, 9);
  add((*space)->begin()->text() + "\n", Outcome::kPass, 9);
  const auto task =
      tabulate({"layer_norm", "layer_norm", context.task->digest, "naive"}, **space, experiences);
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  EXPECT_THAT(task->rows(), SizeIs(distinct));
  EXPECT_EQ(task->rows()[0].speedup.mid, first->allowed[0] + 2);
  EXPECT_EQ(task->id().task, context.task->digest);

  TableTaskId id{"layer_norm", "layer_norm", context.task->digest, "naive"};
  id.prompt = "Which?";
  int asked = 0;
  const auto schedule_of = [&](const Experience&) -> Result<std::string> {
    if (++asked > 1) return invalid("it is no schedule");
    return std::to_string(asked);
  };
  const auto failed = tabulate(id, **space, experiences, schedule_of);
  EXPECT_EQ(failed.ok() ? "" : failed.error().message, "it is no schedule");
}

TEST(CheckToldByTable, RefusesRewardsThatNeedMoreThanARow) {
  for (const char* name : {"speedup", "log_speedup", "correct", "dr_kernel_profiled"})
    EXPECT_TRUE(check_told_by_table(*find_reward(name)).ok()) << name;
  for (const char* name : {"cuda_l2", "roofline"}) {
    const auto told = check_told_by_table(*find_reward(name));
    ASSERT_FALSE(told.ok());
    EXPECT_NE(told.error().message.find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace lathe::rl
