#include "baseline/compose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "baseline/naive/kernel.h"

namespace lathe {
namespace {

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "\"" : ", \"") + word + "\"";
  return "[" + text + "]";
}

const VendorGroup* group_of(std::span<const VendorGroup> groups, const std::string& node) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const VendorGroup& group) {
    return std::find(group.nodes.begin(), group.nodes.end(), node) != group.nodes.end();
  });
  return found == groups.end() ? nullptr : &*found;
}

bool has_buffer(const TaskSpec& task, const std::string& node) {
  return task.find_tensor(node) != nullptr ||
         std::any_of(task.outputs.begin(), task.outputs.end(),
                     [&](const OutputDecl& output) { return output.name == node; });
}

std::string scratch_table(const std::string& name, const Expr& bytes, bool zeroed = false) {
  return fmt::format("\n[[scratch]]\nname = \"{}\"\nbytes = \"{}\"\n{}", name, bytes.to_string(),
                     zeroed ? "init = \"zero\"\n" : "");
}

Expr bytes_of(const SymbolicType& type) {
  Expr bytes = Expr::constant(static_cast<std::int64_t>(info(type.dtype).bytes));
  for (const Expr& extent : type.shape) bytes = bytes * extent;
  return bytes;
}

/// On a GPU every work item is a thread; if there are more than a grid can hold, each thread takes
/// several.
std::string launch_table(const naive::Kernel& kernel, Dialect dialect) {
  const std::string items = kernel.items.to_string();
  const std::string where =
      dialect == Dialect::kCpu
          ? fmt::format("items = \"{}\"\n", items)
          : fmt::format("grid = [\"min(cdiv({}, 128), 1048576)\"]\nblock = [128]\n", items);
  std::vector<std::string> args = kernel.args;
  if (dialect == Dialect::kCuda) args.push_back(items);
  return fmt::format("\n[[launch]]\nkernel = \"{}\"\n{}args = {}\n", kernel.name, where, quoted(args));
}

/// A name for what was in an inout tensor.
std::string name_before(const TaskSpec& task, const std::string& tensor) {
  std::string name = tensor + "_before";
  while (task.find_tensor(name) != nullptr || task.find_node(name) != nullptr) name += '_';
  return name;
}

const std::string kCudaHead = "#include <lathe/cuda.cuh>\n\nusing lathe::align;\nusing lathe::cdiv;\n";

}  // namespace

Result<Candidate> compose_candidate(const TaskSpec& task, std::span<const VendorGroup> groups,
                                    const std::string& name, Dialect dialect) {
  std::string scratch;
  std::string steps;
  std::string kernels;
  for (const NodeDecl& node : task.nodes) {
    const VendorGroup* group = group_of(groups, node.out);
    if (group && group->nodes.back() != node.out) continue;
    if (!has_buffer(task, node.out)) scratch += scratch_table(node.out, bytes_of(node.type));
    if (group) {
      steps +=
          fmt::format("\n[[node]]\nlibrary = \"{}\"\nnodes = {}\n", group->library, quoted(group->nodes));
      continue;
    }
    std::string before;
    if (naive::reads_what_it_overwrites(node)) {
      before = name_before(task, node.out);
      const naive::Kernel copy = naive::copy_kernel(task, node, before, dialect);
      scratch += scratch_table(before, bytes_of(node.type));
      steps += launch_table(copy, dialect);
      kernels += "\n" + copy.code;
    }
    LATHE_TRY(const std::vector<naive::Kernel> own, naive::make_kernels(task, node, dialect, before));
    const naive::Kernel& last = own.back();
    if (!last.work_name.empty()) scratch += scratch_table(last.work_name, last.work_bytes, last.work_zeroed);
    for (const naive::Kernel& kernel : own) {
      steps += launch_table(kernel, dialect);
      kernels += "\n" + kernel.code;
    }
  }
  std::string text = fmt::format("/*lathe\npattern = \"{}\"\n{}{}*/\n", name, scratch, steps);
  if (!kernels.empty())
    text += (dialect == Dialect::kCuda ? kCudaHead : "#include <stdint.h>\n" + naive::helpers_for(kernels)) +
            kernels;
  return parse_candidate(std::move(text), name);
}

}  // namespace lathe
