#include "policy/catalog/schedule_language.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/fd.h"
#include "base/output.h"
#include "policy/catalog/device_target.h"
#include "policy/catalog/schedule_grammar.h"
#include "policy/catalog/schedule_text.h"
#include "tests/task/shipped_tasks.h"

namespace lathe::catalog {
namespace {

using testing::HasSubstr;

constexpr Target kCpu{};
constexpr Target kGpu{.cuda = true};

struct Case {
  std::string name;
  std::shared_ptr<const TaskSpec> task;
  Graph graph;
  Target target;
};

/// Every shipped task on both devices.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::string& path : shipped_task_files())
    for (const Target& target : {kCpu, kGpu}) {
      auto task = std::make_shared<const TaskSpec>(*load_task(path));
      auto graph = lower(*task);
      if (!graph.ok() || !compile(*graph, {}, nullptr, target).ok()) continue;
      const std::string name =
          std::filesystem::path(path).stem().string() + (target.cuda ? " on a GPU" : " on a processor");
      cases.push_back({name, task, *std::move(graph), target});
    }
  return cases;
}

Case softmax(const Target& target = kCpu) {
  auto task = std::make_shared<const TaskSpec>(
      *load_task(std::string(LATHE_SOURCE_DIR) + "/tasks/softmax_rows.toml"));
  auto graph = *lower(*task);
  return {"softmax", task, std::move(graph), target};
}

/// A text of the grammar, each edge as likely as its neighbours.
std::string walk(const TextGrammar& grammar, Rng& rng) {
  std::string text;
  for (std::int32_t at = 0; !grammar.states[static_cast<std::size_t>(at)].edges.empty();) {
    const auto& edges = grammar.states[static_cast<std::size_t>(at)].edges;
    const auto& edge = edges[rng.below(edges.size())];
    text += edge.text;
    at = edge.to;
  }
  return text;
}

TEST(ScheduleText, HasALineForEachKernel) {
  const Case one = softmax();
  const auto usual = compile(one.graph, {});
  EXPECT_EQ(schedule_text(*usual), "fuse=1\nrow_reduce cache=1 unroll=4");
  const auto read = read_schedule(one.graph, "fuse=1\nrow_reduce cache=0 unroll=8", kCpu);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->schedule, (Schedule{{"fuse", 1}, {"g0.cache", 0}, {"g0.unroll", 8}}));
}

TEST(ScheduleText, ReadsBackEveryScheduleOfEveryTask) {
  Rng rng(Seed::from_number(1));
  for (const Case& one : all_cases())
    for (int i = 0; i < 8; ++i) {
      const auto drawn = compile(one.graph, {}, i == 0 ? nullptr : &rng, one.target);
      ASSERT_TRUE(drawn.ok());
      const std::string text = schedule_text(*drawn);
      const auto read = read_schedule(one.graph, text, one.target);
      ASSERT_TRUE(read.ok()) << one.name << "\n" << text << "\n" << read.error().to_string();
      EXPECT_EQ(read->schedule, drawn->schedule) << one.name << "\n" << text;
      EXPECT_EQ(read->text, drawn->text) << one.name;
      EXPECT_EQ(schedule_text(*read), text) << one.name;
    }
}

TEST(ScheduleText, OfAnotherTaskIsAdaptedToWhatThisOneHas) {
  const Case one = softmax();
  const auto adapt = [&](std::string_view text) {
    const auto adapted = adapt_schedule(one.graph, text, kCpu);
    EXPECT_TRUE(adapted.ok()) << adapted.error().to_string();
    return schedule_text(*adapted);
  };
  EXPECT_EQ(adapt("fuse=1\nrow_reduce cache=0 unroll=8"), "fuse=1\nrow_reduce cache=0 unroll=8");
  EXPECT_EQ(adapt("map unroll=1\nrow_reduce cache=0"), "fuse=1\nrow_reduce cache=0 unroll=4")
      << "a kernel takes the knobs of its pattern, and defaults for what is not said";
  EXPECT_EQ(adapt("row_reduce unroll=100 far=3"), "fuse=1\nrow_reduce cache=1 unroll=8")
      << "the nearest value is taken, and what the kernel has not is left out";
  EXPECT_EQ(adapt("contraction tile=3"), "fuse=1\nrow_reduce cache=1 unroll=4");
  EXPECT_FALSE(adapt_schedule(one.graph, "row_reduce fast", kCpu).ok());
}

TEST(ScheduleText, OfEveryTaskCanBeAdaptedToEveryOther) {
  const auto cases = all_cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case &from = cases[i], &to = cases[(7 * i + 3) % cases.size()];
    const std::string text = schedule_text(*compile(from.graph, {}, nullptr, from.target));
    const auto adapted = adapt_schedule(to.graph, text, to.target);
    ASSERT_TRUE(adapted.ok()) << from.name << " to " << to.name;
    EXPECT_TRUE(read_schedule(to.graph, schedule_text(*adapted), to.target).ok());
  }
}

TEST(ScheduleText, TakesFreeBlanksAndOrderAndDefaults) {
  const Case one = softmax();
  const auto usual = compile(one.graph, {{"g0.unroll", 8}});
  for (const char* text : {"row_reduce unroll=8", "\n  row_reduce   unroll=8, cache=1 \r\n\nfuse=1",
                           "fuse=1\n\nrow_reduce unroll=8 cache=1\n"}) {
    const auto read = read_schedule(one.graph, text, kCpu);
    ASSERT_TRUE(read.ok()) << text << "\n" << read.error().to_string();
    EXPECT_EQ(read->text, usual->text) << text;
  }
  EXPECT_EQ(read_schedule(one.graph, "", kCpu)->text, compile(one.graph, {})->text);
}

TEST(ScheduleText, SaysWhereItIsWrongAndWhatWouldBeRight) {
  const Case one = softmax();
  const auto refusal = [&](const std::string& text) {
    const auto read = read_schedule(one.graph, text, kCpu);
    return read.ok() ? "it was taken" : read.error().to_string();
  };
  EXPECT_THAT(refusal("fuse=1\nrow_reduce cache=1 unrol=4"), HasSubstr("schedule:2:20: 'unrol' is no knob"));
  EXPECT_THAT(refusal("row_reduce unrol=4"), HasSubstr("unroll=1|2|4|8"));
  EXPECT_THAT(refusal("row_reduce unroll=3"), HasSubstr("schedule:1:12: unroll cannot be 3"));
  EXPECT_THAT(refusal("row_reduce unroll=3"), HasSubstr("1, 2, 4, 8"));
  EXPECT_THAT(refusal("contraction"), HasSubstr("kernel 1 is no 'contraction'"));
  EXPECT_THAT(refusal("contraction"), HasSubstr("the kernels are: row_reduce"));
  EXPECT_THAT(refusal("row_reduce\nmap"), HasSubstr("one kernel too many"));
  EXPECT_THAT(refusal("row_reduce unroll=4 unroll=4"), HasSubstr("given twice"));
  EXPECT_THAT(refusal("row_reduce unroll=4x"), HasSubstr("'4x' is no whole number"));
  EXPECT_THAT(refusal("row_reduce unroll"), HasSubstr("not name=value"));
  EXPECT_THAT(refusal("I would use a \x1b[31mlarger unroll"), HasSubstr("schedule:1:"));
  EXPECT_THAT(refusal("row_reduce unroll=99999999999999"), HasSubstr("no whole number"));
  EXPECT_THAT(refusal(std::string(1 << 20, 'x')), HasSubstr("1048576 bytes"));
}

TEST(ScheduleGrammar, HasJustTheCanonicalTextsOfEveryTask) {
  Rng rng(Seed::from_number(2));
  for (const Case& one : all_cases()) {
    const auto grammar = schedule_grammar(one.graph, one.target);
    ASSERT_TRUE(grammar.ok()) << one.name << ": " << grammar.error().to_string();
    for (int i = 0; i < 8; ++i) {
      const auto drawn = compile(one.graph, {}, i == 0 ? nullptr : &rng, one.target);
      EXPECT_TRUE(grammar->accepts(schedule_text(*drawn))) << one.name << "\n" << schedule_text(*drawn);
      const std::string text = walk(*grammar, rng);
      const auto read = read_schedule(one.graph, text, one.target);
      ASSERT_TRUE(read.ok()) << one.name << "\n" << text << "\n" << read.error().to_string();
      EXPECT_EQ(schedule_text(*read), text) << one.name;
      EXPECT_LE(static_cast<std::int64_t>(text.size()), grammar->longest_text().value());
    }
  }
}

TEST(ScheduleGrammar, KeepsChoicesThatDependOnEarlierOnes) {
  const Case one = softmax();
  const auto grammar = schedule_grammar(one.graph, kCpu);
  EXPECT_TRUE(grammar->accepts("fuse=1\nrow_reduce cache=1 unroll=4"));
  EXPECT_FALSE(grammar->accepts("fuse=0\nrow_reduce cache=1 unroll=4"));
  EXPECT_FALSE(grammar->accepts("fuse=1\nrow_reduce cache=1 unroll=3"));
  EXPECT_FALSE(grammar->accepts("fuse=1\nrow_reduce cache=1"));
}

class ScheduleLanguageTest : public testing::Test {
 protected:
  const std::shared_ptr<const ActionLanguage> language_ = make_schedule_language();
  const Case one_ = softmax();
  const PolicyContext context_{one_.task, DeviceInfo{}, DevicePeaks{}};
};

TEST_F(ScheduleLanguageTest, MakesTheKernelThatTheScheduleNames) {
  const auto text = language_->candidate(
      context_, "Unrolling helps.\n```\nfuse=1\nrow_reduce cache=1 unroll=8\n```\nThat is all.");
  ASSERT_TRUE(text.ok()) << text.error().to_string();
  EXPECT_EQ(*text, compile(one_.graph, {{"g0.unroll", 8}})->text);
  EXPECT_EQ(*language_->candidate(context_, "row_reduce unroll=8"), *text);
  EXPECT_EQ(*language_->candidate(context_, "```\nrow_reduce unroll=8"), *text) << "the block is not closed";
  EXPECT_FALSE(language_->candidate(context_, "row_reduce unroll=5").ok());
}

TEST_F(ScheduleLanguageTest, AnEarlierKernelIsShownAsItsSchedule) {
  const auto wording = language_->wording(context_);
  ASSERT_TRUE(wording.ok()) << wording.error().to_string();
  Experience experience;
  experience.candidate_text = compile(one_.graph, {{"g0.unroll", 2}})->text;
  EXPECT_EQ((*wording)->shown(experience), "fuse=1\nrow_reduce cache=1 unroll=2");
  experience.candidate_text = "I cannot.";
  EXPECT_EQ((*wording)->shown(experience), "I cannot.");
}

/// Compares with tests/policy/golden; LATHE_UPDATE_GOLDEN=1 writes them anew.
void expect_golden(const std::string& name, const Result<Prompt>& prompt) {
  ASSERT_TRUE(prompt.ok()) << prompt.error().to_string();
  std::string text;
  for (const Message& message : prompt->messages)
    text += "== " + message.role + "\n" + message.content + "\n";
  const std::string path = std::string(LATHE_SOURCE_DIR) + "/tests/policy/golden/" + name + ".txt";
  if (std::getenv("LATHE_UPDATE_GOLDEN")) {
    ASSERT_TRUE(write_output(path, text).ok());
  }
  EXPECT_EQ(text, read_file(path).value()) << "run with LATHE_UPDATE_GOLDEN=1 and read the difference";
}

std::shared_ptr<const Attempt> attempt(std::string text, Outcome outcome, const std::string& reason,
                                       std::string detail = {}) {
  Attempt made;
  made.experience.candidate_text = std::move(text);
  made.experience.verdict.outcome = outcome;
  made.experience.verdict.reason = reason;
  made.experience.verdict.detail = std::move(detail);
  made.experience.verdict.timings = {{"rows=8", 12345}};
  made.fitness = outcome == Outcome::kPass ? 1.5 : 0;
  return std::make_shared<const Attempt>(std::move(made));
}

TEST_F(ScheduleLanguageTest, PromptsSpeakOfSchedules) {
  const Prompter prompter = *Prompter::load();
  const auto ask = [&](const DeviceInfo& device, const History& history, HistoryUse use) {
    const auto wording = language_->wording({one_.task, device, {}});
    return prompter.render({*one_.task, device, {}, history, use, &**wording}, {});
  };
  DeviceInfo cpu, gpu;
  cpu.name = "Test CPU", gpu.name = "Test GPU", gpu.dialect = Dialect::kCuda;
  expect_golden("schedule_first_cpu", ask(cpu, {}, HistoryUse::kBest));
  expect_golden("schedule_first_gpu", ask(gpu, {}, HistoryUse::kBest));
  const std::string wrong = "row_reduce unroll=5";
  const History history = {attempt(wrong, Outcome::kBuildFailed, "bad_candidate",
                                   read_schedule(one_.graph, wrong, kCpu).error().to_string()),
                           attempt(compile(one_.graph, {})->text, Outcome::kPass, "ok")};
  expect_golden("schedule_conversation", ask(cpu, history, HistoryUse::kConversation));
  expect_golden("schedule_contrast", ask(cpu, history, HistoryUse::kExemplars));
}

TEST_F(ScheduleLanguageTest, AnAnswerThatIsNoScheduleIsProposedWithItsError) {
  const ProposalRequest request{.context = context_};
  const Proposal bad = propose_answer(*language_, request, "local:x", {"row_reduce unroll=5", 7});
  EXPECT_EQ(bad.text, "row_reduce unroll=5");
  ASSERT_TRUE(bad.unreadable.has_value());
  EXPECT_THAT(bad.unreadable->to_string(), HasSubstr("unroll cannot be 5"));
  EXPECT_EQ(bad.lineage.description, "cut off after 7 tokens");
  const Proposal good = propose_answer(*language_, request, "local:x", {"row_reduce unroll=4"});
  EXPECT_FALSE(good.unreadable.has_value());
  EXPECT_EQ(good.text, compile(one_.graph, {})->text);
}

}  // namespace
}  // namespace lathe::catalog
