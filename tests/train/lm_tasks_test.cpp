#include "train/lm_tasks.h"

#include <gmock/gmock.h>

#include "model/chat_tokens.h"
#include "policy/local/local.h"
#include "tests/gym/fake_task.h"
#include "tests/model/byte_model.h"
#include "tests/train/written_table.h"

namespace lathe::train {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kKernel =
    "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\nint x;\n";

DeviceRecord some_device() {
  return {.device = {.kind = "cpu", .name = "box"}, .peaks = {.flops_per_second = 1e9, .levels = {}}};
}
KernelTaskOptions kernel_options() {
  return {.tasks = {shared_twice_task()}, .device = some_device(), .prompt = {.max_tokens = 100'000}};
}
std::unique_ptr<KernelTasks> kernel_tasks(KernelTaskOptions options = kernel_options()) {
  auto made = KernelTasks::create(std::move(options), kernel_language());
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return *std::move(made);
}

/// Writes one text and keeps what it was asked.
class OneAnswer final : public Engine {
 public:
  OneAnswer(std::string text, GenerationRequest& asked) : text_(std::move(text)), asked_(asked) {
    info_ = {.model = "m", .device = "cpu", .precision = "f32"};
    info_.vocab = kByteModelVocab, info_.context = 20'000, info_.max_batch = 1;
  }
  const EngineInfo& info() const override { return info_; }
  Result<std::uint64_t> submit(GenerationRequest request) override {
    asked_ = std::move(request);
    return 1;
  }
  Result<GenerationNews> wait(std::uint64_t, double) override {
    Sample sample{.finish = FinishReason::kEnd};
    for (const char c : text_) sample.tokens.push_back(static_cast<unsigned char>(c));
    sample.log_probs.resize(text_.size()), sample.model_log_probs.resize(text_.size());
    return GenerationNews{{std::move(sample)}, true};
  }
  void cancel(std::uint64_t) override {}

 private:
  const std::string text_;
  GenerationRequest& asked_;
  EngineInfo info_;
};

class KernelTasksTest : public testing::Test {
 protected:
  /// What the policy of `lathe optimize` makes of the answer `text`, and how it asks.
  Proposal proposed(const std::string& text) {
    LocalOptions options{.model = model_, .start_engine = [&]() -> Result<std::unique_ptr<Engine>> {
                           return std::unique_ptr<Engine>(std::make_unique<OneAnswer>(text, asked_));
                         }};
    options.prompt.max_tokens = 100'000;
    const auto policy = make_local_policy(options, null_sink());
    EXPECT_TRUE(policy.ok());
    const DeviceRecord device = some_device();
    const auto proposals =
        propose_now(**policy, {.context = {shared_twice_task(), device.device, device.peaks}});
    EXPECT_TRUE(proposals.ok());
    return proposals->front();
  }

  const TemporaryFolder folder_;
  const std::string model_ = folder_.write("bytes.gguf", byte_model_gguf());
  GenerationRequest asked_;
};

TEST_F(KernelTasksTest, AskAndReadAsThePolicyOfASearchDoes) {
  const auto tasks = kernel_tasks();
  const std::string kernel = kKernel;
  for (const std::string& text :
       {"```cpp\n" + kernel + "```", "Words.\n```cpp\nint a;\n```\nand\n```cpp\n" + kernel + "}\n```", kernel,
        "```cpp\n" + kernel, std::string("no kernel")}) {
    const Proposal proposal = proposed(text);
    const auto answer = tasks->meaning(0, text, false);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->text, proposal.text);
    EXPECT_EQ(answer->unreadable.has_value(), proposal.unreadable.has_value());
    EXPECT_EQ(answer->written.empty() ? answer->text : answer->written, text);
    EXPECT_FALSE(answer->cut);
  }
  const auto messages = tasks->messages({.task = 0});
  ASSERT_TRUE(messages.ok()) << messages.error().to_string();
  EXPECT_EQ(*encode_chat(Tokenizer::open(model_).value(), nullptr, *messages), asked_.prompt);
  EXPECT_EQ(tasks->form(0).stop_texts, asked_.stop_texts);
  EXPECT_EQ(tasks->form(0).most_tokens, asked_.max_tokens);
}

TEST_F(KernelTasksTest, AnAnswerThatIsCutMeansNoCandidate) {
  KernelTaskOptions options = kernel_options();
  options.answer_tokens = 77;
  const auto answer = kernel_tasks(std::move(options))->meaning(0, "```cpp\n" + std::string(kKernel), true);
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->cut);
  ASSERT_TRUE(answer->unreadable);
  EXPECT_THAT(answer->unreadable->message, HasSubstr("77 tokens"));
}

TEST_F(KernelTasksTest, LaterTurnsShowKernelsWithTheirVerdicts) {
  auto attempt = std::make_shared<Attempt>();
  attempt->experience.candidate_text = kKernel;
  attempt->experience.verdict.outcome = Outcome::kWrong;
  attempt->experience.verdict.reason = "bound";
  const auto messages =
      kernel_tasks()->messages({.task = 0, .shown = {attempt}, .use = HistoryUse::kConversation});
  ASSERT_TRUE(messages.ok()) << messages.error().to_string();
  ASSERT_THAT(*messages, SizeIs(4));
  EXPECT_THAT((*messages)[2].content, HasSubstr("kernel = \"f\""));
  EXPECT_THAT((*messages)[3].content, HasSubstr("bound"));
}

TEST_F(KernelTasksTest, TasksWhosePromptsAreTooLongAreLeftOut) {
  KernelTaskOptions options = kernel_options();
  std::string longer = kTwiceTask;
  longer.replace(longer.find("twice"), 5, "twice_" + std::string(50, 'x'));
  options.tasks.push_back(std::make_shared<const TaskSpec>(parse_task(longer, "longer").value()));
  options.prompt.count = [](std::string_view text) { return static_cast<std::int64_t>(text.size()); };
  std::int64_t length = 0;
  const auto messages = *kernel_tasks(options)->messages({.task = 0});
  for (const ChatMessage& message : messages) length += static_cast<std::int64_t>(message.content.size());
  options.prompt.max_tokens = length + 30;
  const auto tasks = kernel_tasks(options);
  EXPECT_EQ(tasks->count(), 1U);
  EXPECT_EQ(tasks->left_out(), 1U);
  EXPECT_EQ(tasks->name(0), "twice");
}

TEST(TableTasks, AnswersAreRowsUnderAGrammarOfAllRows) {
  const rl::ScheduleTable table = written_table(1);
  const auto tasks = table_tasks(table);
  const auto form = tasks->form(0);
  ASSERT_TRUE(form.grammar);
  for (const rl::TableRow& row : table.tasks[0].rows()) {
    EXPECT_TRUE(form.grammar->accepts(row.schedule));
    EXPECT_EQ(tasks->meaning(0, row.schedule, false)->text, row.schedule);
  }
  EXPECT_FALSE(tasks->meaning(0, "none", false).ok());
  EXPECT_FALSE(tasks->messages({.task = 0, .shown = {std::make_shared<const Attempt>()}}).ok());
}

}  // namespace
}  // namespace lathe::train
