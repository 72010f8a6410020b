#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "candidate/template.h"
#include "record/experience.h"

namespace lathe {

/// One message of a chat.
struct Message {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;

  bool operator==(const Message&) const = default;
};

/// How many tokens a text has.
using TokenCounter = std::function<std::int64_t(std::string_view)>;
/// A third of the bytes: more than tokenizers need for code, so that a budget holds without one.
std::int64_t estimate_tokens(std::string_view text);

struct PromptOptions {
  std::int64_t max_tokens = 8000;  ///< of the whole prompt
  TokenCounter count = estimate_tokens;
  int best = 4;  ///< earlier attempts that HistoryUse::kBest shows (STTS)
};

/// How prompts speak of answers that are not a candidate's text.
struct Wording {
  /// Of a template NAME.txt, NAME_variant.txt is taken where the folder has it; empty: none is.
  std::string variant;
  Holes format;  ///< of format_variant.txt
  /// What stands for an earlier attempt: its answer, as this one should be written.
  std::function<std::string(const Experience&)> shown;
};

struct PromptRequest {
  const TaskSpec& task;
  const DeviceInfo& device;
  const DevicePeaks& peaks;
  const History& history;
  HistoryUse use = HistoryUse::kBest;
  const Wording* wording = nullptr;  ///< nullptr: answers are candidates' texts
};

struct Prompt {
  std::vector<Message> messages;
  std::int64_t tokens = 0;  ///< by the counter, a few a message included; never more than asked for
  int shown = 0;            ///< attempts of the history
  int left_out = 0;         ///< attempts for which there was no room
};

/// Writes prompts from the templates of a folder. Immutable, so thread-safe.
///
/// The budget is kept by construction: system, task, format and the question come first, in full.
/// Then attempts are added one by one as long as they fit: of a conversation the newest first, else
/// the best first. Each is shown with its code and all that is known of it; if that does not fit
/// without facts of the machine code, then without the profile; if not, with its verdict in one
/// line; and if not, it is left out, with all after it. Code is whole or absent.
class Prompter {
 public:
  /// Empty: the installation's `prompts`. Errors name the file and the hole that a template gets
  /// wrong.
  static Result<Prompter> load(const std::string& folder = {});

  /// Errors: kInvalid where the part that must be there exceeds the budget; says by how much.
  Result<Prompt> render(const PromptRequest& request, const PromptOptions& options) const;

 private:
  class Writer;
  std::map<std::string, std::string> texts_;  ///< templates and examples by file name
};

}  // namespace lathe
