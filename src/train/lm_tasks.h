#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device_record.h"
#include "model/chat_template.h"
#include "model/text_grammar.h"
#include "policy/language.h"
#include "rl/actor.h"
#include "rl/table.h"

namespace lathe::train {

/// What a language model is asked of the tasks of a gym, and what its answers mean.
class LmTasks {
 public:
  virtual ~LmTasks() = default;
  virtual std::size_t count() const = 0;
  virtual std::string_view name(std::size_t task) const = 0;
  /// Errors: kInvalid for a prompt that it has no words for, or that is too long.
  virtual Result<std::vector<ChatMessage>> messages(const rl::Prompt& prompt) const = 0;

  struct Form {
    std::shared_ptr<const TextGrammar> grammar = {};  ///< of all answers; null: any text is one
    std::vector<std::string> stop_texts = {};         ///< that end one, beside the end of a turn
    std::int64_t most_tokens = 0;                     ///< of one without a grammar: what is longer is cut off
  };
  virtual Form form(std::size_t task) const = 0;
  /// The answer apart from its tokens. Errors: kInternal for one that is not of the form.
  virtual Result<rl::Answer> meaning(std::size_t task, std::string written, bool cut) const = 0;
};

/// Schedules of a table that tells prompts; answers are its rows. `table` must outlive it.
std::unique_ptr<LmTasks> table_tasks(const rl::ScheduleTable& table);

struct KernelTaskOptions {
  std::vector<std::shared_ptr<const TaskSpec>> tasks;
  DeviceRecord device;                ///< that kernels are written for
  std::string prompts_folder = {};    ///< empty: the installation's
  PromptOptions prompt = {};          ///< prompts that are longer are refused
  std::int64_t answer_tokens = 4096;  ///< of an answer
};

/// Kernels in a language of policies, asked for and read as `lathe optimize --policy local` does
/// it, for a gym that judges any text. An answer that is cut off means no candidate, whatever it
/// has written so far. Tasks whose prompts are too long are left out. Errors: kNotFound where the
/// templates of prompts are missing.
class KernelTasks final : public LmTasks {
 public:
  static Result<std::unique_ptr<KernelTasks>> create(KernelTaskOptions options,
                                                     std::shared_ptr<const ActionLanguage> language);

  std::size_t count() const override { return options_.tasks.size(); }
  std::string_view name(std::size_t task) const override { return options_.tasks[task]->name; }
  Result<std::vector<ChatMessage>> messages(const rl::Prompt& prompt) const override;
  Form form(std::size_t task) const override;
  Result<rl::Answer> meaning(std::size_t task, std::string written, bool cut) const override;

  /// Those that are left.
  const std::vector<std::shared_ptr<const TaskSpec>>& tasks() const { return options_.tasks; }
  std::size_t left_out() const { return left_out_; }

 private:
  KernelTasks(KernelTaskOptions options, std::shared_ptr<const ActionLanguage> language, Prompter prompter)
      : options_(std::move(options)), language_(std::move(language)), prompter_(std::move(prompter)) {}
  PolicyContext context(std::size_t task) const {
    return {options_.tasks[task], options_.device.device, options_.device.peaks};
  }

  KernelTaskOptions options_;
  std::shared_ptr<const ActionLanguage> language_;
  Prompter prompter_;
  std::size_t left_out_ = 0;
};

}  // namespace lathe::train
