#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/text_grammar.h"
#include "policy/policy.h"
#include "prompt/prompter.h"

namespace lathe {

/// In what form a model says which kernel it means. May be used by several threads at once.
class ActionLanguage {
 public:
  virtual ~ActionLanguage() = default;
  virtual std::string_view name() const = 0;
  /// How prompts ask for it; nullopt: as for a candidate's whole text.
  virtual Result<std::optional<Wording>> wording(const PolicyContext& context) const = 0;
  /// The candidate's text that an answer means. Errors: kInvalid for an answer that means none,
  /// with the place and what would.
  virtual Result<std::string> candidate(const PolicyContext& context, std::string_view answer) const = 0;
  /// An answer to another task, rewritten for this one as far as that takes no thought: names and
  /// dims by their places, knobs by their kernels' patterns. It may mean no candidate, or a wrong
  /// one.
  virtual Result<std::string> carry_over(const PolicyContext& context, const TaskSpec& from,
                                         std::string_view answer) const = 0;
  /// All well-formed answers of the task; nullptr: any text is one.
  virtual Result<std::shared_ptr<const TextGrammar>> grammar(const PolicyContext& context) const = 0;
  /// What ends an answer, beside the model's end of turn.
  virtual std::vector<std::string> stop_texts() const = 0;
};

/// "kernel": a candidate's whole text, in a fenced block. `bounded`: with kernel_grammar().
std::shared_ptr<const ActionLanguage> kernel_language(bool bounded = false);

/// An answer and how its model came to write it.
struct Answer {
  std::string_view text;
  std::int64_t cut_after = 0;  ///< tokens, at which it was ended; 0: it ended by itself
};
/// What an answer proposes: text and lineage, without its Generation. One that means no candidate
/// is proposed as it is, with what is wrong.
Proposal propose_answer(const ActionLanguage& language, const ProposalRequest& request, std::string policy,
                        const Answer& answer);

/// As a blob of an experience keeps them: a JSON list.
std::string messages_text(const std::vector<Message>& messages);

}  // namespace lathe
