#include "data/drafts.h"

#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "data/split.h"
#include "gym/cancellable.h"
#include "prompt/fence.h"

namespace lathe {
namespace {

using nlohmann::json;

struct TaskDrafts {
  std::shared_ptr<const TaskSpec> task;
  bool held_out = false;
  std::vector<std::string> lines;
};

Result<TaskDrafts> drafts_of(const DraftContext& context, const DraftOptions& options, int index) {
  TaskDrafts drafts;
  const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(index);
  LATHE_TRY(const std::string text, generate_task(seed, options.generate));
  LATHE_TRY(TaskSpec parsed, parse_task(text, "generated"));
  const auto task = drafts.task = std::make_shared<const TaskSpec>(std::move(parsed));
  drafts.held_out = is_held_out(composition_of(*task));
  if (drafts.held_out) return drafts;
  const auto prompt = context.prompter.render({*task, context.device, context.peaks, {}}, options.prompt);
  if (!prompt.ok()) return drafts;
  LATHE_TRY(const auto proposals,
            propose_now(*context.make_policy(), {.context = {task, context.device, context.peaks},
                                                 .count = options.kernels,
                                                 .seed = Seed::from_number(seed),
                                                 .cancel = context.stop}));
  for (const Proposal& proposal : proposals)
    drafts.lines.push_back(json{{"kind", "draft"},
                                {"prompt", prompt->messages.back().content},
                                {"answer", fenced(proposal.text, "cpp")},
                                {"task_name", task->name},
                                {"task", task->digest.hex()},
                                {"candidate", digest_of(proposal.text).hex()}}
                               .dump() +
                           "\n");
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
    else
      drafts.tasks.push_back(one.task);
    for (const std::string& line : one.lines) drafts.lines += line;
    drafts.examples += static_cast<int>(one.lines.size());
  }
  return drafts;
}

}  // namespace lathe
