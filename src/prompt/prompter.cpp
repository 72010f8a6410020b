#include "prompt/prompter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backend/installation.h"
#include "base/fd.h"
#include "candidate/template.h"
#include "prompt/feedback.h"
#include "prompt/fence.h"
#include "prompt/task_text.h"

namespace lathe {
namespace {

constexpr std::int64_t kMessageTokens = 8;  // what a chat template adds to a message, generously
constexpr std::array kFiles = {"ask_again.txt",
                               "ask_best.txt",
                               "ask_contrast.txt",
                               "ask_first.txt",
                               "attempt.txt",
                               "example_cpu.cpp",
                               "example_cuda.cu",
                               "exemplar.txt",
                               "format_cpu.txt",
                               "feedback_pass.txt",
                               "feedback_bad_candidate.txt",
                               "feedback_build_failed.txt",
                               "feedback_wrong.txt",
                               "feedback_crash.txt",
                               "feedback_refused.txt",
                               "format_cuda.txt",
                               "system.txt",
                               "task.txt",
                               "ask_again_schedule.txt",
                               "ask_best_schedule.txt",
                               "ask_contrast_schedule.txt",
                               "ask_first_schedule.txt",
                               "feedback_bad_candidate_schedule.txt",
                               "format_schedule.txt",
                               "system_schedule.txt",
                               "task_schedule.txt"};

/// How much of a verdict is told, most first.
enum class Detail { kFull, kNoFacts, kNoProfile, kLine };

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::int64_t estimate_tokens(std::string_view text) {
  return static_cast<std::int64_t>((text.size() + 2) / 3);
}

/// One prompt on its way.
class Prompter::Writer {
 public:
  Writer(const Prompter& prompter, const PromptRequest& request, const PromptOptions& options)
      : texts_(prompter.texts_), request_(request), options_(options) {}

  Result<Prompt> write() {
    LATHE_TRY(const std::string system, fill("system", {}));
    LATHE_TRY(std::string task, describe());
    if (request_.history.empty()) {
      LATHE_TRY(const std::string ask, fill("ask_first", {}));
      return finish({{"system", system}, {"user", task + "\n" + ask}});
    }
    if (request_.use == HistoryUse::kConversation) return converse(system, task);
    return list(system, task);
  }

 private:
  /// `name` is a template's, without its ending.
  Result<std::string> fill(const std::string& name, const Holes& holes) const {
    std::string file = name + ".txt";
    if (request_.wording)
      if (const std::string own = name + "_" + request_.wording->variant + ".txt"; texts_.contains(own))
        file = own;
    auto filled = try_expand(texts_.at(file), {}, holes);
    if (!filled.ok()) return invalid("prompts/" + file + ": " + filled.error().message, filled.error().hint);
    return trimmed(*std::move(filled));
  }

  bool cuda() const { return request_.device.dialect == Dialect::kCuda; }

  Result<std::string> describe() const {
    LATHE_TRY(const std::string task,
              fill("task", task_holes(request_.task, request_.device, request_.peaks)));
    const std::string& example = texts_.at(cuda() ? "example_cuda.cu" : "example_cpu.cpp");
    LATHE_TRY(const std::string format, request_.wording ? fill("format", request_.wording->format)
                                                         : fill(cuda() ? "format_cuda" : "format_cpu",
                                                                {{"example", fenced(example, "cpp")}}));
    return format + "\n\n" + task + "\n";
  }

  Result<std::string> feedback(const Experience& experience, Detail detail) const {
    if (detail == Detail::kLine) return feedback_line(experience.verdict);
    const std::string cut =
        experience.lineage.description.starts_with("cut off")
            ? fmt::format("The answer was {}.\n", quoted_line(experience.lineage.description))
            : "";
    FeedbackParts parts = feedback_parts(experience.verdict, experience.candidate_text);
    if (detail >= Detail::kNoFacts) parts.facts.clear();
    if (detail >= Detail::kNoProfile) parts.bottleneck.clear();
    LATHE_TRY(const std::string text,
              fill(parts.template_name, {{"outcome", parts.outcome},
                                         {"reason", parts.reason},
                                         {"detail", parts.detail},
                                         {"log", parts.log},
                                         {"pattern", parts.pattern},
                                         {"speeds", parts.speeds},
                                         {"bottleneck", parts.bottleneck},
                                         {"facts", parts.facts},
                                         {"sizes", cuda() ? "grid, block" : "items"}}));
    return cut + text;
  }

  std::string code(const Experience& experience) const {
    if (request_.wording) return fenced(request_.wording->shown(experience));
    return fenced(experience.candidate_text, "cpp");
  }
  /// As the author wrote it.
  std::string answer(const Experience& experience) const {
    return request_.wording ? request_.wording->shown(experience) : code(experience);
  }

  std::int64_t cost(const std::vector<Message>& messages) const {
    std::int64_t tokens = 0;
    for (const Message& message : messages) tokens += options_.count(message.content) + kMessageTokens;
    return tokens;
  }

  Result<Prompt> finish(std::vector<Message> messages, int shown = 0) const {
    Prompt prompt{std::move(messages), 0, shown, static_cast<int>(request_.history.size()) - shown};
    prompt.tokens = cost(prompt.messages);
    if (prompt.tokens <= options_.max_tokens) return prompt;
    return invalid(fmt::format("the shortest prompt for task '{}' has {} tokens, and {} are allowed",
                               request_.task.name, prompt.tokens, options_.max_tokens),
                   "allow more with --prompt-tokens");
  }

  /// The longest form of an attempt with which `messages_with(form)` is within the budget; nullopt:
  /// none is.
  template <class MessagesWith>
  Result<std::optional<std::string>> longest_form(const Experience& experience,
                                                  MessagesWith messages_with) const {
    for (const Detail detail : {Detail::kFull, Detail::kNoFacts, Detail::kNoProfile, Detail::kLine}) {
      LATHE_TRY(std::string form, feedback(experience, detail));
      LATHE_TRY(const std::vector<Message> messages, messages_with(form));
      if (cost(messages) <= options_.max_tokens) return std::optional(std::move(form));
    }
    return std::optional<std::string>();
  }

  /// Turns as they were: task, answer, feedback, answer, feedback. Older turns are left out from
  /// the front.
  Result<Prompt> converse(const std::string& system, const std::string& task) const {
    LATHE_TRY(const std::string first, fill("ask_first", {}));
    const std::vector<Message> head = {{"system", system}, {"user", task + "\n" + first}};
    std::vector<Message> turns;
    int shown = 0;
    for (auto attempt = request_.history.rbegin(); attempt != request_.history.rend(); ++attempt) {
      const Experience& experience = (*attempt)->experience;
      const auto with = [&](const std::string& form) -> Result<std::vector<Message>> {
        LATHE_TRY(std::string ask, fill("ask_again", {{"feedback", form}}));
        std::vector<Message> messages = head;
        messages.push_back({"assistant", answer(experience)});
        messages.push_back({"user", std::move(ask)});
        messages.insert(messages.end(), turns.begin(), turns.end());
        return messages;
      };
      LATHE_TRY(const auto form, longest_form(experience, with));
      if (!form) break;
      LATHE_TRY(const std::vector<Message> messages, with(*form));
      turns.assign(messages.begin() + 2, messages.end());
      ++shown;
    }
    std::vector<Message> messages = head;
    messages.insert(messages.end(), turns.begin(), turns.end());
    return finish(std::move(messages), shown);
  }

  /// One question under a list of attempts, the best first. Of exemplars all are wanted, else the
  /// best.
  Result<Prompt> list(const std::string& system, const std::string& task) const {
    const bool contrast = request_.use == HistoryUse::kExemplars;
    History attempts = request_.history;
    std::stable_sort(attempts.begin(), attempts.end(),
                     [](const auto& a, const auto& b) { return a->fitness > b->fitness; });
    if (!contrast && static_cast<int>(attempts.size()) > options_.best)
      attempts.resize(static_cast<std::size_t>(options_.best));
    std::string listed;
    int shown = 0;
    const auto messages_with = [&](const std::string& attempts_text) -> Result<std::vector<Message>> {
      const auto left_out = static_cast<int>(request_.history.size()) - shown;
      const std::string note =
          left_out > 0 ? fmt::format("({} other attempts are not shown.)", left_out) : "";
      LATHE_TRY(const std::string ask,
                fill(contrast ? "ask_contrast" : "ask_best",
                     {{"attempts", attempts_text}, {"exemplars", attempts_text}, {"left_out", note}}));
      return std::vector<Message>{{"system", system}, {"user", task + "\n" + ask}};
    };
    for (const auto& attempt : attempts) {
      const Experience& experience = attempt->experience;
      const auto entry = [&](const std::string& form) {
        return fill(contrast ? "exemplar" : "attempt", {{"number", std::to_string(shown + 1)},
                                                        {"score", fmt::format("{:.3f}", attempt->fitness)},
                                                        {"code", code(experience)},
                                                        {"feedback", form}});
      };
      const auto with = [&](const std::string& form) -> Result<std::vector<Message>> {
        LATHE_TRY(const std::string text, entry(form));
        return messages_with(listed + text + "\n\n");
      };
      LATHE_TRY(const auto form, longest_form(experience, with));
      if (!form) break;
      LATHE_TRY(const std::string text, entry(*form));
      listed += text + "\n\n";
      ++shown;
    }
    if (shown == 0) {
      LATHE_TRY(const std::string ask, fill("ask_first", {}));
      return finish({{"system", system}, {"user", task + "\n" + ask}});
    }
    LATHE_TRY(std::vector<Message> messages, messages_with(trimmed(listed)));
    return finish(std::move(messages), shown);
  }

  const std::map<std::string, std::string>& texts_;
  const PromptRequest& request_;
  const PromptOptions& options_;
};

Result<Prompter> Prompter::load(const std::string& folder) {
  std::string place = folder;
  if (place.empty()) {
    LATHE_TRY(place, find_data_folder("prompts", "system.txt"));
  }
  Prompter prompter;
  for (const char* const file : kFiles) {
    LATHE_TRY(prompter.texts_[file], read_file(place + "/" + file));
  }
  return prompter;
}

Result<Prompt> Prompter::render(const PromptRequest& request, const PromptOptions& options) const {
  return Writer(*this, request, options).write();
}

}  // namespace lathe
