#include "task/raw_node.h"

#include <fmt/format.h>

namespace lathe {
namespace {

/// Integers, or expressions as soon as one item is a text.
Result<AttrValue> attr_list(const toml::array& items, const SourcePos& where) {
  std::vector<std::int64_t> numbers;
  std::vector<std::string> expressions;
  for (const toml::node& item : items) {
    if (item.is_integer()) {
      numbers.push_back(**item.as_integer());
      expressions.push_back(std::to_string(numbers.back()));
    } else if (item.is_string()) {
      expressions.push_back(**item.as_string());
    } else {
      return invalid("an attribute's list must hold integers or expressions in quotes", {}, where);
    }
  }
  if (numbers.size() == expressions.size()) return AttrValue(std::move(numbers));
  return AttrValue(std::move(expressions));
}

Result<AttrValue> attr_value(const toml::node& node, const SourcePos& where) {
  if (node.is_integer()) return AttrValue(**node.as_integer());
  if (node.is_floating_point()) return AttrValue(**node.as_floating_point());
  if (node.is_boolean()) return AttrValue(**node.as_boolean());
  if (node.is_string()) return AttrValue(**node.as_string());
  if (const toml::array* items = node.as_array()) {
    return attr_list(*items, where);
  }
  return invalid("an attribute must be a number, true, false, a text or a list of integers", {}, where);
}

Result<RawNode> read_node(const TomlTable& table) {
  RawNode node;
  node.where = table.where();
  LATHE_TRY(node.out, table.required_text("out"));
  LATHE_TRY(node.op, table.required_text("op"));
  LATHE_TRY(std::vector<std::string> inputs, table.texts("in"));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.in.push_back({std::move(inputs[i]), table.where((*table.get("in")->as_array())[i])});
  }
  for (const auto& [key, value] : table.raw()) {
    if (key.str() == "out" || key.str() == "op" || key.str() == "in") continue;
    LATHE_TRY(AttrValue parsed, attr_value(value, table.where(value)));
    node.attrs.push_back({std::string(key.str()), std::move(parsed), table.where(value)});
  }
  return node;
}

std::size_t offset_of_line(std::string_view text, int line) {
  std::size_t at = 0;
  for (int i = 1; i < line && at != std::string_view::npos; ++i) {
    const std::size_t newline = text.find('\n', at);
    at = newline == std::string_view::npos ? newline : newline + 1;
  }
  return at;
}

/// Where a TOML string's content starts in the file: after its quotes, and after the newline that a
/// multi-line string drops.
SourcePos content_start(std::string_view text, SourcePos quotes) {
  const std::size_t line_start = offset_of_line(text, quotes.line);
  if (line_start == std::string_view::npos) return quotes;
  const std::string_view rest = text.substr(std::min(text.size(), line_start + quotes.column - 1));
  const bool multi_line = rest.starts_with("\"\"\"") || rest.starts_with("'''");
  quotes.column += multi_line ? 3 : 1;
  if (multi_line && (rest.substr(3).starts_with("\n") || rest.substr(3).starts_with("\r\n"))) {
    quotes.line += 1;
    quotes.column = 1;
  }
  return quotes;
}

}  // namespace

Result<std::vector<RawNode>> read_nodes(const TomlTable& task, std::string_view task_text) {
  if (const toml::node* graph = task.get("graph")) {
    if (task.get("node") != nullptr) {
      return invalid("a task has either 'graph' or [[node]] tables", "drop one of them", task.where("node"));
    }
    LATHE_TRY(const std::string text, task.text("graph", ""));
    return parse_graph(text, content_start(task_text, task.where(*graph)));
  }
  LATHE_TRY(const std::vector<TomlTable> tables, task.tables("node", kMaxNodes));
  std::vector<RawNode> nodes;
  for (const TomlTable& table : tables) {
    LATHE_TRY(RawNode node, read_node(table));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace lathe
