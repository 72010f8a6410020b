#include "candidate/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "candidate/plan_table.h"

namespace lathe {
namespace {

constexpr std::size_t kMaxPlanSteps = 256, kMaxMaps = 64;

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
  LATHE_CHECK_OK(reader.allow({"kernel", "items", "grid", "block", "cluster", "non_portable", "smem",
                               "carveout", "cooperative", "programmatic", "args", "when", "repeat", "index"},
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
  LATHE_TRY(step.non_portable, reader.flag("non_portable"));
  LATHE_TRY(step.smem, reader.optional_expr("smem"));
  LATHE_TRY(step.carveout, reader.optional_expr("carveout"));
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

Result<TmaDecl> read_tma(const TableReader& reader) {
  LATHE_CHECK_OK(
      reader.allow({"name", "base", "dtype", "dims", "strides", "box", "swizzle", "fill"}, "[[tma]]"));
  TmaDecl map;
  map.where = reader.where();
  LATHE_TRY(map.name, reader.required_text("name"));
  if (!is_identifier(map.name)) return invalid("a map's 'name' must be a name", {}, map.where);
  LATHE_TRY(map.base, reader.required_text("base"));
  if (const toml::node* dtype = reader.get("dtype")) {
    LATHE_TRY(const std::string name, reader.text("dtype", ""));
    LATHE_TRY(map.dtype, parse_dtype(name, reader.where(*dtype)));
  }
  LATHE_TRY(map.dims, reader.exprs("dims", TmaDecl::kMaxRank));
  LATHE_TRY(map.strides, reader.exprs("strides", TmaDecl::kMaxRank - 1));
  LATHE_TRY(map.box, reader.exprs("box", TmaDecl::kMaxRank));
  if (map.dims.empty() || map.box.size() != map.dims.size())
    return invalid(fmt::format("a map needs as many 'box' extents as 'dims', got {} and {}", map.box.size(),
                               map.dims.size()),
                   "for example dims = [\"K\", \"M\"], box = [64, 128]: innermost first", map.where);
  if (!map.strides.empty() && map.strides.size() + 1 != map.dims.size())
    return invalid("'strides' has one entry, in bytes, for each dim but the innermost",
                   "leave it out where the buffer is packed", map.where);
  LATHE_TRY(map.swizzle, reader.optional_expr("swizzle"));
  LATHE_TRY(const std::string fill, reader.text("fill", "zero"));
  if (fill != "zero" && fill != "nan")
    return invalid(fmt::format("unknown fill '{}'", fill), "allowed: zero, nan",
                   reader.where(*reader.get("fill")));
  map.fill_nan = fill == "nan";
  return map;
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
  LATHE_CHECK_OK(reader.allow(
      {"launch", "node", "scratch", "tma", "requires", "constants", "pattern", "knobs"}, "the front matter"));
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
  LATHE_CHECK_OK(for_tables(root, "tma", origin, [&](const TableReader& table) -> Status {
    LATHE_TRY(auto map, read_tma(table));
    plan.maps.push_back(std::move(map));
    return Ok{};
  }));
  if (plan.maps.size() > kMaxMaps)
    return invalid(fmt::format("the plan has {} maps; at most {} are allowed", plan.maps.size(), kMaxMaps),
                   {}, origin);
  if (plan.steps.empty())
    return invalid("the plan has no step", "add a [[launch]] with kernel, items and args", origin);
  if (plan.steps.size() > kMaxPlanSteps)
    return invalid(
        fmt::format("the plan has {} steps; at most {} are allowed", plan.steps.size(), kMaxPlanSteps),
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
