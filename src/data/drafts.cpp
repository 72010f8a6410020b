#include "data/drafts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/parallel.h"
#include "data/split.h"
#include "gym/cancellable.h"
#include "prompt/fence.h"

namespace lathe {
namespace {

using nlohmann::json;

struct TaskDrafts {
  std::vector<std::shared_ptr<const TaskSpec>> tasks;  // one for each of its extents that has examples
  bool held_out = false;
  std::vector<std::string> lines;
};

/// At most `count` varied kernels of `first`, without those that `seen` has.
std::vector<Proposal> varied_of(Variation& variation, const PolicyContext& context, const Proposal& first,
                                int count, Rng rng, std::set<std::string> seen) {
  const Experience parent{.candidate = digest_of(first.text), .candidate_text = first.text};
  std::vector<Proposal> all;
  for (int tries = 0; static_cast<int>(all.size()) < count && tries < 4 * count; ++tries) {
    auto varied = vary(variation, context, parent, rng);
    if (varied.ok() && seen.insert(varied->text).second) all.push_back(*std::move(varied));
  }
  return all;
}

Status add_examples(const DraftContext& context, const DraftOptions& options, std::uint64_t seed,
                    const std::string& text, TaskDrafts& drafts) {
  LATHE_TRY(TaskSpec parsed, parse_task(text, "generated"));
  const auto task = std::make_shared<const TaskSpec>(std::move(parsed));
  const auto prompt = context.prompter.render({*task, context.device, context.peaks, {}}, options.prompt);
  if (!prompt.ok()) return Ok{};
  const PolicyContext about{task, context.device, context.peaks};
  const auto policy = context.make_policy();
  LATHE_TRY(auto proposals, propose_now(*policy, {.context = about,
                                                  .count = options.kernels,
                                                  .seed = Seed::from_number(seed),
                                                  .cancel = context.stop}));
  if (options.varied > 0 && !proposals.empty() && policy->variation() != nullptr) {
    std::set<std::string> seen;
    for (const Proposal& proposal : proposals) seen.insert(proposal.text);
    auto varied = varied_of(*policy->variation(), about, proposals.front(), options.varied,
                            Rng(Seed::from_number(seed).derive("data.vary")), std::move(seen));
    std::ranges::move(varied, std::back_inserter(proposals));
  }
  for (const Proposal& proposal : proposals)
    drafts.lines.push_back(json{{"kind", "draft"},
                                {"prompt", prompt->messages.back().content},
                                {"answer", fenced(proposal.text, "cpp")},
                                {"task_name", task->name},
                                {"task", task->digest.hex()},
                                {"candidate", digest_of(proposal.text).hex()}}
                               .dump() +
                           "\n");
  if (!proposals.empty()) drafts.tasks.push_back(task);
  return Ok{};
}

/// Forms of the task with other extents than its own, the exam's and each other's, as far as there
/// are some.
Result<std::vector<std::string>> other_extents(const TaskSpec& task, const DraftOptions& options, int index) {
  std::set<Dims> taken = {task.shapes.front().dims};
  if (const auto exam = reshape_for_exam(task, options.seed, index); exam.ok()) {
    LATHE_TRY(const TaskSpec examined, parse_task(*exam, "exam"));
    taken.insert(examined.shapes.front().dims);
  }
  Rng rng(Seed::from_number(options.seed).derive("data.draft", static_cast<std::uint64_t>(index)));
  std::vector<std::string> texts;
  for (int i = 1; i < options.extents; ++i) {
    const auto text = reshape(task, rng, fmt::format("{}_{}", task.name, i));
    if (!text.ok()) break;
    LATHE_TRY(const TaskSpec other, parse_task(*text, "reshaped"));
    if (taken.insert(other.shapes.front().dims).second) texts.push_back(*text);
  }
  return texts;
}

Result<TaskDrafts> drafts_of(const DraftContext& context, const DraftOptions& options, int index) {
  TaskDrafts drafts;
  const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(index);
  LATHE_TRY(const std::string text, generate_task(seed, options.generate));
  LATHE_TRY(const TaskSpec task, parse_task(text, "generated"));
  drafts.held_out = is_held_out(composition_of(task));
  if (drafts.held_out) return drafts;
  LATHE_CHECK_OK(add_examples(context, options, seed, text, drafts));
  if (options.extents == 1) return drafts;
  LATHE_TRY(const auto others, other_extents(task, options, index));
  for (const std::string& other : others) LATHE_CHECK_OK(add_examples(context, options, seed, other, drafts));
  return drafts;
}

}  // namespace

Result<Drafts> draft_examples(const DraftContext& context, const DraftOptions& options) {
  std::vector<TaskDrafts> all(static_cast<std::size_t>(options.tasks));
  LATHE_CHECK_OK(for_each_index(options.tasks, [&](int i) -> Status {
    if (context.stop.cancelled()) return cancelled_error();
    LATHE_TRY(all[static_cast<std::size_t>(i)], drafts_of(context, options, i));
    return Ok{};
  }));
  Drafts drafts;
  for (const TaskDrafts& one : all) {
    if (one.held_out)
      ++drafts.held_out;
    else if (one.lines.empty())
      ++drafts.without;
    drafts.tasks.insert(drafts.tasks.end(), one.tasks.begin(), one.tasks.end());
    for (const std::string& line : one.lines) drafts.lines += line;
    drafts.examples += static_cast<int>(one.lines.size());
  }
  return drafts;
}

}  // namespace lathe
