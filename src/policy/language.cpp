#include "policy/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "candidate/candidate.h"
#include "policy/kernel_grammar.h"
#include "prompt/fence.h"
#include "record/json.h"

namespace lathe {
namespace {

using Names = std::map<std::string, std::string, std::less<>>;

/// What tensors, results and dims of one task are called in another, first by first.
Names names_by_place(const TaskSpec& from, const TaskSpec& to) {
  Names names;
  const auto pair_up = [&](const auto& old_items, const auto& new_items, auto name_of) {
    for (std::size_t i = 0; i < std::min(old_items.size(), new_items.size()); ++i)
      names.emplace(name_of(old_items[i]), name_of(new_items[i]));
  };
  pair_up(from.tensors, to.tensors, [](const TensorDecl& tensor) { return tensor.name; });
  pair_up(from.outputs, to.outputs, [](const OutputDecl& output) { return output.name; });
  pair_up(from.nodes, to.nodes, [](const NodeDecl& node) { return node.out; });
  pair_up(from.dim_names, to.dim_names, [](const std::string& dim) { return dim; });
  return names;
}

/// Replaces whole words, all at once. A member (`threadIdx.x`) is none of a task's names.
std::string renamed(std::string_view text, const Names& names) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && in_word(text[end])) ++end;
    if (end == at) {
      result += text[at++];
      continue;
    }
    const std::string_view word = text.substr(at, end - at);
    const bool member = at > 0 && text[at - 1] == '.';
    const auto found = member ? names.end() : names.find(word);
    result += found == names.end() ? word : std::string_view(found->second);
    at = end;
  }
  return result;
}

class KernelLanguage final : public ActionLanguage {
 public:
  explicit KernelLanguage(bool bounded) : bounded_(bounded) {}

  std::string_view name() const override { return "kernel"; }
  Result<std::optional<Wording>> wording(const PolicyContext&) const override {
    return std::optional<Wording>();
  }
  /// A text without a candidate is one too: the gym says what is wrong with it.
  Result<std::string> candidate(const PolicyContext&, std::string_view answer) const override {
    return candidate_in(answer);
  }
  Result<std::string> carry_over(const PolicyContext& context, const TaskSpec& from,
                                 std::string_view answer) const override {
    return fenced(renamed(candidate_in(answer), names_by_place(from, *context.task)), "cpp");
  }
  Result<std::shared_ptr<const TextGrammar>> grammar(const PolicyContext& context) const override {
    if (!bounded_) return std::shared_ptr<const TextGrammar>();
    return std::make_shared<const TextGrammar>(kernel_grammar(*context.task, context.device.dialect));
  }
  /// A block's end; "```" alone may begin one.
  std::vector<std::string> stop_texts() const override { return {"}\n```"}; }

 private:
  const bool bounded_;
};

std::string_view operation_of(const ProposalRequest& request) {
  if (request.history.empty()) return "sample";
  return request.use == HistoryUse::kExemplars ? "contrast" : "refine";
}

}  // namespace

std::shared_ptr<const ActionLanguage> kernel_language(bool bounded) {
  return std::make_shared<KernelLanguage>(bounded);
}

Proposal propose_answer(const ActionLanguage& language, const ProposalRequest& request, std::string policy,
                        const Answer& answer) {
  Proposal proposal;
  auto text = language.candidate(request.context, answer.text);
  if (text.ok())
    proposal.text = *std::move(text);
  else
    proposal.text = answer.text, proposal.unreadable = std::move(text).error();
  proposal.lineage.policy = std::move(policy);
  proposal.lineage.operation = operation_of(request);
  if (answer.cut_after > 0)
    proposal.lineage.description = fmt::format("cut off after {} tokens", answer.cut_after);
  for (const auto& attempt : request.history)
    proposal.lineage.parents.push_back(attempt->experience.candidate);
  return proposal;
}

std::string messages_text(const std::vector<Message>& messages) {
  nlohmann::json list = nlohmann::json::array();
  for (const Message& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return json_text(list);
}

}  // namespace lathe
