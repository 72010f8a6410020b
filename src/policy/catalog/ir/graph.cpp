#include "policy/catalog/ir/graph.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace lathe::catalog {

std::string same_value(std::span<const std::string> operands) { return operands[0]; }

bool is_wide(DType dtype) { return dtype == DType::kF64 || dtype == DType::kI32 || dtype == DType::kI64; }

bool is_one(const Expr& extent) { return extent.is_constant() && extent.to_string() == "1"; }
bool equal(const Expr& a, const Expr& b) { return a.to_string() == b.to_string(); }

Expr product(std::span<const Expr> extents) {
  Expr result = Expr::constant(1);
  for (const Expr& extent : extents) result = result * extent;
  return result;
}

std::string factor(const Expr& expr) {
  const std::string text = expr.to_string();
  const bool atom =
      std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return atom ? text : "(" + text + ")";
}

const std::string& Graph::result_of(const std::string& output) const {
  const auto value = written.find(output);
  return value == written.end() ? output : value->second;
}

bool Graph::is_output(const std::string& value) const {
  return std::ranges::any_of(task->outputs,
                             [&](const OutputDecl& output) { return result_of(output.name) == value; });
}

bool Graph::overwrites(const std::string& value) const {
  return std::ranges::any_of(written, [&](const auto& pair) { return pair.second == value; });
}

std::string Graph::unused(std::string name) const {
  while (types.contains(name) || task->find_node(name) != nullptr) name += '_';
  return name;
}

std::vector<int> Graph::consumers(const std::string& value) const {
  std::vector<int> found;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (std::ranges::find(nodes[i].in, value) != nodes[i].in.end()) found.push_back(static_cast<int>(i));
  return found;
}

namespace {

Expr renamed(const Expr& expr, const std::map<std::string, std::string>& names, bool back) {
  std::map<std::string, Expr> replacements;
  for (const auto& [code, task] : names)
    replacements.emplace(back ? code : task, Expr::symbol(back ? task : code));
  return replacements.empty() ? expr : expr.substitute(replacements);
}

}  // namespace

std::string name_in_code(const std::string& dim) { return "n_" + dim; }

Expr to_code(const Graph& graph, const Expr& expr) { return renamed(expr, graph.dims, false); }
Expr to_task(const Graph& graph, const Expr& expr) { return renamed(expr, graph.dims, true); }

std::int64_t headline(const Graph& graph, const Expr& expr) {
  if (graph.task->shapes.empty()) return 1;
  const auto value = to_task(graph, expr).evaluate(graph.task->shapes[0].dims);
  return value.ok() ? *value : 1;
}

std::int64_t least(const Graph& graph, const Expr& expr) {
  std::int64_t least = headline(graph, expr);
  for (const NamedShape& shape : graph.task->shapes)
    if (const auto value = to_task(graph, expr).evaluate(shape.dims); value.ok())
      least = std::min(least, *value);
  return least;
}

std::int64_t most(const Graph& graph, const Expr& expr) {
  Dims highest;
  for (const auto& [dim, range] : graph.task->dim_ranges) highest[dim] = range.high;
  const auto value = to_task(graph, expr).evaluate(highest);
  return value.ok() ? *value : std::numeric_limits<std::int64_t>::max();
}

double headline_count(const Graph& graph, std::span<const Expr> shape) {
  double total = 1;
  for (const Expr& extent : shape) total *= static_cast<double>(headline(graph, extent));
  return total;
}

}  // namespace lathe::catalog
