#include "policy/catalog/compile.h"

#include <algorithm>

#include "policy/catalog/fuse/overwrite.h"
#include "policy/catalog/fuse/partition.h"
#include "policy/catalog/patterns.h"
#include "policy/catalog/schedule/team.h"

namespace lathe::catalog {
namespace {

/// Outputs that are views of inputs or of other outputs have no kernel: they are copied.
void copy_aliases(Graph& graph) {
  std::vector<std::string> owners;
  for (const OutputDecl& output : graph.task->outputs)
    if (const std::string& value = graph.result_of(output.name); root_of(graph, value) == value)
      owners.push_back(value);
  for (const OutputDecl& output : graph.task->outputs) {
    const std::string& value = graph.result_of(output.name);
    const std::string root = root_of(graph, value);
    if (root == value) continue;
    const bool first = std::ranges::find(owners, root) == owners.end();
    owners.push_back(root);
    if (first && !graph.is_input(root)) continue;
    for (Primitive& node : graph.nodes) {
      if (node.out != value) continue;
      node.kind = Kind::kApply;
      const std::string view = graph.unused(value + "_view");
      Primitive source{.kind = Kind::kView, .out = view, .in = node.in, .type = node.type};
      graph.types[view] = node.type;
      node.in = {view};
      node.formula = same_value;
      graph.nodes.insert(graph.nodes.begin() + (&node - graph.nodes.data()), source);
      break;
    }
  }
}

}  // namespace

Result<Emission> compile(const Graph& given, const Schedule& schedule, Rng* random, const Target& asked) {
  Graph graph = given;
  copy_aliases(graph);
  Choices choices(schedule, random);
  Partition parts = partition(graph, true);
  Partition apart = partition(graph, false);
  const bool matters = parts.groups.size() != apart.groups.size();
  const bool fuse = !matters || choices.pick("fuse", {0, 1}, 1) == 1;
  if (!fuse) parts = std::move(apart);
  if (delay_overwriting(graph, parts)) parts = partition(graph, fuse);
  Target target = asked;
  if (target.cuda) target = choose_team(graph, parts, choices, target);
  Program program(graph, target);
  for (std::size_t g = 0; g < parts.groups.size(); ++g) {
    const Site site{graph, parts.groups[g], target, choices, "g" + std::to_string(g)};
    LATHE_CHECK_OK(emit_group(site, program));
  }
  const bool chained = target.cuda && program.kernels() > 1 && choices.pick("chain", {0, 1}, 1) == 1;
  return Emission{.text = program.finish(choices.taken(), chained),
                  .patterns = program.patterns(),
                  .schedule = choices.taken(),
                  .space = choices.space(),
                  .order = choices.order(),
                  .work = program.work()};
}

}  // namespace lathe::catalog
