#include "train/lm_tasks.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe::train {
namespace {

class TableTasks final : public LmTasks {
 public:
  explicit TableTasks(const rl::ScheduleTable& table) : table_(table) {}

  std::size_t count() const override { return table_.tasks.size(); }
  std::string_view name(std::size_t task) const override { return table_.tasks[task].name(); }

  Result<std::vector<ChatMessage>> messages(const rl::Prompt& prompt) const override {
    const rl::TableTask& task = table_.tasks[prompt.task];
    if (!task.is_written())
      return invalid("the table has no prompts", "write it with: lathe data table --language schedule");
    if (!prompt.shown.empty())
      return invalid("a table's prompts show no earlier kernels", "train with turns = 1 and exemplars = 0");
    std::vector<ChatMessage> messages;
    if (!task.id().system.empty()) messages.push_back({"system", task.id().system});
    messages.push_back({"user", task.id().prompt});
    return messages;
  }

  Form form(std::size_t task) const override {
    auto grammar = std::make_shared<TextGrammar>();
    grammar->states.resize(2);
    for (const rl::TableRow& row : table_.tasks[task].rows())
      grammar->states[0].edges.push_back({row.schedule, 1});
    grammar->states[1].end = true;
    return {.grammar = std::move(grammar)};
  }

  Result<rl::Answer> meaning(std::size_t task, std::string written, bool cut) const override {
    const rl::TableRow* const row = table_.tasks[task].find(written);
    if (row == nullptr || cut)
      return Error{ErrorCode::kInternal, fmt::format("the engine left the grammar with '{}'", written)};
    return rl::Answer{.text = row->schedule, .tokens = {}, .log_probabilities = {}};
  }

 private:
  const rl::ScheduleTable& table_;
};

}  // namespace

std::unique_ptr<LmTasks> table_tasks(const rl::ScheduleTable& table) {
  return std::make_unique<TableTasks>(table);
}

Result<std::unique_ptr<KernelTasks>> KernelTasks::create(KernelTaskOptions options,
                                                         std::shared_ptr<const ActionLanguage> language) {
  LATHE_TRY(Prompter prompter, Prompter::load(options.prompts_folder));
  std::unique_ptr<KernelTasks> made(
      new KernelTasks(std::move(options), std::move(language), std::move(prompter)));
  std::vector<std::shared_ptr<const TaskSpec>> kept;
  for (std::size_t task = 0; task < made->count(); ++task)
    if (made->messages({.task = task}).ok()) kept.push_back(made->tasks()[task]);
  made->left_out_ = made->count() - kept.size();
  made->options_.tasks = std::move(kept);
  return made;
}

Result<std::vector<ChatMessage>> KernelTasks::messages(const rl::Prompt& prompt) const {
  const PolicyContext asked = context(prompt.task);
  LATHE_TRY(const auto wording, language_->wording(asked));
  LATHE_TRY(const Prompt rendered, prompter_.render({*asked.task, asked.device, asked.peaks, prompt.shown,
                                                     prompt.use, wording ? &*wording : nullptr},
                                                    options_.prompt));
  std::vector<ChatMessage> messages;
  for (const Message& message : rendered.messages) messages.push_back({message.role, message.content});
  return messages;
}

LmTasks::Form KernelTasks::form(std::size_t) const {
  return {.grammar = {}, .stop_texts = language_->stop_texts(), .most_tokens = options_.answer_tokens};
}

Result<rl::Answer> KernelTasks::meaning(std::size_t task, std::string written, bool cut) const {
  Proposal proposal = propose_answer(*language_, {.context = context(task)}, {}, {.text = written});
  rl::Answer answer{.text = std::move(proposal.text), .tokens = {}, .log_probabilities = {}};
  answer.cut = cut;
  answer.unreadable = std::move(proposal.unreadable);
  if (cut)
    answer.unreadable = invalid(fmt::format("the answer was cut off after {} tokens", options_.answer_tokens),
                                "write a shorter kernel");
  if (written != answer.text) answer.written = std::move(written);
  return answer;
}

}  // namespace lathe::train
