#include "candidate/plan.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <initializer_list>

namespace lathe {
namespace {

constexpr std::size_t kMaxSteps = 256;

/// Reads one table of the front matter; remembers where things stand in the candidate's text.
class TableReader {
 public:
  TableReader(const toml::table& table, const SourcePos& origin) : table_(table), origin_(origin) {}

  SourcePos where(const toml::node& node) const {
    const auto begin = node.source().begin;
    const int line = static_cast<int>(begin.line);
    return {origin_.file, origin_.line + line - 1,
            static_cast<int>(begin.column) + (line == 1 ? origin_.column - 1 : 0)};
  }
  SourcePos where() const { return where(table_); }

  Status allow(std::initializer_list<std::string_view> keys, std::string_view what) const {
    for (const auto& [key, node] : table_)
      if (std::find(keys.begin(), keys.end(), key.str()) == keys.end())
        return invalid(fmt::format("unknown key '{}' in {}", key.str(), what),
                       fmt::format("allowed: {}", fmt::join(keys, ", ")), where(node));
    return Ok{};
  }

  Result<std::string> text(std::string_view key, std::string fallback) const {
    const toml::node* node = table_.get(key);
    if (!node) return fallback;
    if (!node->is_string()) return invalid(fmt::format("'{}' must be a string", key), {}, where(*node));
    return **node->as_string();
  }

  Result<bool> flag(std::string_view key) const {
    const toml::node* node = table_.get(key);
    if (!node) return false;
    if (!node->is_boolean()) return invalid(fmt::format("'{}' must be true or false", key), {}, where(*node));
    return **node->as_boolean();
  }

  Result<std::string> required_text(std::string_view key) const {
    if (!table_.get(key))
      return invalid(fmt::format("'{}' is missing", key), "add it to this table", where());
    return text(key, "");
  }

  /// Integers and strings both name an expression.
  Result<Expr> expr(const toml::node& node) const {
    if (node.is_integer()) return Expr::constant(**node.as_integer());
    if (!node.is_string())
      return invalid("an expression must be an integer or a string", "for example \"cdiv(M, 64)\"",
                     where(node));
    SourcePos inside = where(node);
    inside.column += 1;
    return Expr::parse(**node.as_string(), inside);
  }

  Result<std::optional<Expr>> optional_expr(std::string_view key) const {
    const toml::node* node = table_.get(key);
    if (!node) return std::optional<Expr>{};
    LATHE_TRY(Expr parsed, expr(*node));
    return std::optional<Expr>(std::move(parsed));
  }

  Result<std::vector<Expr>> exprs(std::string_view key, std::size_t most) const {
    std::vector<Expr> list;
    const toml::node* node = table_.get(key);
    if (!node) return list;
    if (!node->is_array() || node->as_array()->size() > most)
      return invalid(fmt::format("'{}' must be a list of at most {} expressions", key, most), {},
                     where(*node));
    for (const toml::node& item : *node->as_array()) {
      LATHE_TRY(Expr parsed, expr(item));
      list.push_back(std::move(parsed));
    }
    return list;
  }

  Result<std::vector<std::string>> texts(std::string_view key) const {
    std::vector<std::string> list;
    const toml::node* node = table_.get(key);
    if (!node) return list;
    const toml::array* items = node->as_array();
    if (!items) return invalid(fmt::format("'{}' must be a list of strings", key), {}, where(*node));
    for (const toml::node& item : *items) {
      if (!item.is_string()) return invalid(fmt::format("'{}' must hold strings", key), {}, where(item));
      list.push_back(**item.as_string());
    }
    return list;
  }

  const toml::node* get(std::string_view key) const { return table_.get(key); }

 private:
  const toml::table& table_;
  const SourcePos& origin_;
};

bool is_identifier(std::string_view text) {
  if (text.empty() || text.size() > 128) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Result<std::vector<Arg>> read_args(const TableReader& reader) {
  std::vector<Arg> args;
  const toml::node* node = reader.get("args");
  if (!node) return args;
  if (!node->is_array())
    return invalid("'args' must be a list", "for example args = [\"x\", \"y\", \"rows\"]",
                   reader.where(*node));
  for (const toml::node& item : *node->as_array()) {
    if (item.is_string() && is_identifier(**item.as_string())) {
      args.push_back({**item.as_string(), std::nullopt});
      continue;
    }
    LATHE_TRY(Expr parsed, reader.expr(item));
    args.push_back({"", std::move(parsed)});
  }
  if (args.size() > 24)
    return invalid("a kernel takes at most 24 arguments", "pass fewer, or pack integers",
                   reader.where(*node));
  return args;
}

Status read_conditions(const TableReader& reader, PlanStep& step) {
  LATHE_TRY(step.when, reader.optional_expr("when"));
  LATHE_TRY(step.repeat, reader.optional_expr("repeat"));
  LATHE_TRY(step.index, reader.text("index", ""));
  if (!step.index.empty() && !is_identifier(step.index))
    return invalid("'index' must be a name", {}, reader.where(*reader.get("index")));
  if (!step.index.empty() && !step.repeat)
    return invalid("'index' needs 'repeat'", "add repeat = \"...\"", reader.where(*reader.get("index")));
  return Ok{};
}

Result<PlanStep> read_launch(const TableReader& reader) {
  LATHE_CHECK_OK(reader.allow({"kernel", "items", "grid", "block", "cluster", "smem", "cooperative",
                               "programmatic", "args", "when", "repeat", "index"},
                              "[[launch]]"));
  PlanStep step;
  step.where = reader.where();
  LATHE_TRY(step.kernel, reader.required_text("kernel"));
  if (!is_identifier(step.kernel))
    return invalid("'kernel' must be the name of an extern \"C\" function", {},
                   reader.where(*reader.get("kernel")));
  LATHE_TRY(auto items, reader.optional_expr("items"));
  if (items) step.items = *items;
  LATHE_TRY(step.grid, reader.exprs("grid", 3));
  LATHE_TRY(step.block, reader.exprs("block", 3));
  LATHE_TRY(step.cluster, reader.exprs("cluster", 3));
  LATHE_TRY(step.smem, reader.optional_expr("smem"));
  LATHE_TRY(step.cooperative, reader.flag("cooperative"));
  LATHE_TRY(step.programmatic, reader.flag("programmatic"));
  LATHE_TRY(step.args, read_args(reader));
  LATHE_CHECK_OK(read_conditions(reader, step));
  return step;
}

Result<PlanStep> read_node(const TableReader& reader) {
  LATHE_CHECK_OK(reader.allow({"library", "nodes", "when", "repeat", "index"}, "[[node]]"));
  PlanStep step;
  step.kind = PlanStep::Kind::kNode;
  step.where = reader.where();
  LATHE_TRY(step.library, reader.required_text("library"));
  LATHE_TRY(step.nodes, reader.texts("nodes"));
  if (step.nodes.empty()) return invalid("'nodes' must name at least one graph node", {}, step.where);
  LATHE_CHECK_OK(read_conditions(reader, step));
  return step;
}

Result<ScratchDecl> read_scratch(const TableReader& reader) {
  LATHE_CHECK_OK(reader.allow({"name", "bytes", "init"}, "[[scratch]]"));
  ScratchDecl scratch;
  LATHE_TRY(scratch.name, reader.required_text("name"));
  if (!is_identifier(scratch.name))
    return invalid("a scratch buffer's 'name' must be a name", {}, reader.where());
  LATHE_TRY(auto bytes, reader.optional_expr("bytes"));
  if (!bytes) return invalid("'bytes' is missing", "for example bytes = \"4 * M * N\"", reader.where());
  scratch.bytes = *bytes;
  LATHE_TRY(const std::string init, reader.text("init", "poison"));
  if (init == "zero")
    scratch.init = ScratchInit::kZero;
  else if (init == "counter")
    scratch.init = ScratchInit::kCounter;
  else if (init != "poison")
    return invalid(fmt::format("unknown init '{}'", init), "allowed: poison, zero, counter",
                   reader.where(*reader.get("init")));
  return scratch;
}

/// Calls `each` with a reader for every table of the array of tables `key`.
template <class Each>
Status for_tables(const toml::table& root, std::string_view key, const SourcePos& origin, Each each) {
  const toml::node* node = root.get(key);
  if (!node) return Ok{};
  const TableReader root_reader(root, origin);
  const toml::array* tables = node->as_array();
  if (!tables)
    return invalid(fmt::format("'{0}' must be written as [[{0}]]", key), {}, root_reader.where(*node));
  for (const toml::node& item : *tables) {
    if (!item.is_table())
      return invalid(fmt::format("'{0}' must be written as [[{0}]]", key), {}, root_reader.where(item));
    LATHE_CHECK_OK(each(TableReader(*item.as_table(), origin)));
  }
  return Ok{};
}

Result<Plan> read_plan(const toml::table& root, const SourcePos& origin) {
  const TableReader reader(root, origin);
  LATHE_CHECK_OK(reader.allow({"launch", "node", "scratch", "requires", "constants", "pattern", "knobs"},
                              "the front matter"));
  Plan plan;
  LATHE_TRY(plan.requires_, reader.optional_expr("requires"));
  LATHE_TRY(plan.constants, reader.texts("constants"));
  LATHE_TRY(plan.pattern, reader.text("pattern", ""));
  LATHE_TRY(plan.knobs, reader.text("knobs", ""));
  for (const std::string& constant : plan.constants)
    if (!is_identifier(constant))
      return invalid("'constants' must hold names of dims", {}, reader.where(*reader.get("constants")));
  LATHE_CHECK_OK(for_tables(root, "launch", origin, [&](const TableReader& table) -> Status {
    LATHE_TRY(auto step, read_launch(table));
    plan.steps.push_back(std::move(step));
    return Ok{};
  }));
  LATHE_CHECK_OK(for_tables(root, "node", origin, [&](const TableReader& table) -> Status {
    LATHE_TRY(auto step, read_node(table));
    plan.steps.push_back(std::move(step));
    return Ok{};
  }));
  LATHE_CHECK_OK(for_tables(root, "scratch", origin, [&](const TableReader& table) -> Status {
    LATHE_TRY(auto scratch, read_scratch(table));
    plan.scratch.push_back(std::move(scratch));
    return Ok{};
  }));
  if (plan.steps.empty())
    return invalid("the plan has no step", "add a [[launch]] with kernel, items and args", origin);
  if (plan.steps.size() > kMaxSteps)
    return invalid(fmt::format("the plan has {} steps; at most {} are allowed", plan.steps.size(), kMaxSteps),
                   "use repeat", origin);
  // Launches and nodes are separate arrays in TOML; a step's turn is where it stands in the text.
  std::stable_sort(plan.steps.begin(), plan.steps.end(), [](const PlanStep& a, const PlanStep& b) {
    return std::pair(a.where.line, a.where.column) < std::pair(b.where.line, b.where.column);
  });
  return plan;
}

}  // namespace

Result<Plan> parse_plan(std::string_view front_matter, const SourcePos& where) {
  try {
    return read_plan(toml::parse(front_matter), where);
  } catch (const toml::parse_error& error) {
    const auto begin = error.source().begin;
    const int line = static_cast<int>(begin.line);
    return invalid(std::string(error.description()), "the front matter between /*lathe and */ must be TOML",
                   {where.file, where.line + line - 1,
                    static_cast<int>(begin.column) + (line == 1 ? where.column - 1 : 0)});
  }
}

}  // namespace lathe
