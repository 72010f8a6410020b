#include "contest/retrieval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/fd.h"
#include "data/dataset.h"
#include "record/json.h"

namespace lathe {
namespace {

using nlohmann::json;

std::vector<std::string> operations_of(const TaskSpec& task) {
  std::vector<std::string> operations;
  for (const NodeDecl& node : task.nodes) operations.push_back(node.op_name);
  return operations;
}

double edits(const std::vector<std::string>& from, const std::vector<std::string>& to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({changed, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return static_cast<double>(row.back());
}

std::vector<double> extents_of(const TaskSpec& task) {
  std::vector<double> extents;
  for (const std::string& dim : task.dim_names)
    if (const auto found = task.shapes.front().dims.find(dim); found != task.shapes.front().dims.end())
      extents.push_back(static_cast<double>(std::max<std::int64_t>(1, found->second)));
  return extents;
}

}  // namespace

TaskDistance distance(const TaskSpec& one, const TaskSpec& other) {
  const auto left = operations_of(one), right = operations_of(other);
  std::multiset<std::string> common, all(left.begin(), left.end()), rest(right.begin(), right.end());
  for (const std::string& operation : left)
    if (const auto found = rest.find(operation); found != rest.end())
      common.insert(operation), rest.erase(found);
  all.insert(rest.begin(), rest.end());
  TaskDistance result;
  result.operations =
      all.empty() ? 0 : 1 - static_cast<double>(common.size()) / static_cast<double>(all.size());
  result.order = edits(left, right);
  const auto mine = extents_of(one), others = extents_of(other);
  const std::size_t count = std::min(mine.size(), others.size());
  for (std::size_t i = 0; i < count; ++i)
    result.extents += std::abs(std::log2(mine[i] / others[i])) / static_cast<double>(count);
  return result;
}

Result<std::vector<LearnedTask>> read_learned_tasks(const std::string& folder,
                                                    const ActionLanguage& language) {
  const std::string path = fmt::format("{}/{}", folder, data_file_name(Split::kTrain, language.name()));
  LATHE_TRY(const std::string text, read_file(path));
  std::map<std::string, LearnedTask> by_name;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = parse_json(std::string_view(text).substr(begin, end - begin), "the line");
    begin = end + 1;
    const SourcePos where{path, ++number, 0};
    if (!line.ok()) return invalid(line.error().message, "", where);
    if (const std::string kind = line->value("kind", ""); kind != "first" && kind != "draft") continue;
    const std::string name = line->value("task_name", ""), answer = line->value("answer", "");
    if (name.empty() || name.find('/') != std::string::npos || answer.empty())
      return invalid("an example without its task's name or answer", "", where);
    LearnedTask& learned = by_name[name];
    if (!learned.task) {
      LATHE_TRY(TaskSpec task, load_task(fmt::format("{}/tasks/train/{}.toml", folder, name)));
      learned.task = std::make_shared<const TaskSpec>(std::move(task));
    }
    learned.answers.push_back(answer);
  }
  std::vector<LearnedTask> learned;
  for (auto& [name, one] : by_name) learned.push_back(std::move(one));
  return learned;
}

std::unique_ptr<Policy> make_retrieval_policy(std::vector<LearnedTask> learned,
                                              std::shared_ptr<const ActionLanguage> language) {
  const auto propose = [learned = std::move(learned),
                        language](const ProposalRequest& request) -> Result<std::vector<Proposal>> {
    const PolicyContext& context = request.context;
    std::vector<std::pair<TaskDistance, const LearnedTask*>> nearest;
    for (const LearnedTask& one : learned) nearest.emplace_back(distance(*one.task, *context.task), &one);
    std::ranges::stable_sort(nearest, {}, [](const auto& entry) { return entry.first; });
    std::vector<Proposal> proposals;
    std::set<std::string> seen;
    for (const auto& [far, one] : nearest)
      for (const std::string& answer : one->answers) {
        if (static_cast<int>(proposals.size()) >= request.count) return proposals;
        const auto carried = language->carry_over(context, *one->task, answer);
        Proposal proposal =
            propose_answer(*language, request, "retrieval", {carried.ok() ? *carried : answer});
        proposal.lineage.operation = "retrieve";
        proposal.lineage.description = "from " + one->task->name;
        if (seen.insert(proposal.text).second) proposals.push_back(std::move(proposal));
      }
    return proposals;
  };
  return make_policy("retrieval", propose, RunsOn::kCaller);
}

}  // namespace lathe
