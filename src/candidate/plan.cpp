#include "candidate/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "task/toml_table.h"

namespace lathe {
namespace {

constexpr std::size_t kMaxPlanSteps = 1024, kMaxMaps = 64, kMaxScratch = 1024, kMaxArgs = 24;
constexpr std::size_t kMaxConstants = 64, kMaxNodesOfStep = 512;

bool is_identifier(std::string_view text) {
  if (text.empty() || text.size() > 128) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Result<std::vector<Arg>> read_args(const TomlTable& table) {
  std::vector<Arg> args;
  const TomlValue* written = table.get("args");
  if (!written) return args;
  if (!written->is_list())
    return invalid("'args' must be a list", "for example args = [\"x\", \"y\", \"rows\"]",
                   table.where(*written));
  if (written->items.size() > kMaxArgs)
    return invalid(fmt::format("a kernel takes at most {} arguments", kMaxArgs),
                   "pass fewer, or pack integers", table.where(*written));
  for (const TomlValue& item : written->items) {
    if (item.text() && is_identifier(*item.text())) {
      args.push_back({*item.text(), std::nullopt});
      continue;
    }
    LATHE_TRY(Expr parsed, table.expr(item));
    args.push_back({"", std::move(parsed)});
  }
  return args;
}

Status read_conditions(const TomlTable& table, PlanStep& step) {
  LATHE_TRY(step.when, table.optional_expr("when"));
  LATHE_TRY(step.repeat, table.optional_expr("repeat"));
  LATHE_TRY(step.index, table.text("index", ""));
  if (!step.index.empty() && !is_identifier(step.index))
    return invalid("'index' must be a name", {}, table.where("index"));
  if (!step.index.empty() && !step.repeat)
    return invalid("'index' needs 'repeat'", "add repeat = \"...\"", table.where("index"));
  return Ok{};
}

Result<PlanStep> read_launch(const TomlTable& table) {
  LATHE_CHECK_OK(
      table.allow_only({"kernel", "items", "grid", "block", "cluster", "non_portable", "smem", "carveout",
                        "cooperative", "programmatic", "args", "when", "repeat", "index"},
                       "[[launch]]"));
  PlanStep step;
  step.where = table.where();
  LATHE_TRY(step.kernel, table.required_text("kernel"));
  if (!is_identifier(step.kernel))
    return invalid("'kernel' must be the name of an extern \"C\" function", {}, table.where("kernel"));
  LATHE_TRY(auto items, table.optional_expr("items"));
  if (items) step.items = *items;
  LATHE_TRY(step.grid, table.exprs("grid", 3));
  LATHE_TRY(step.block, table.exprs("block", 3));
  LATHE_TRY(step.cluster, table.exprs("cluster", 3));
  LATHE_TRY(step.non_portable, table.flag("non_portable", false));
  LATHE_TRY(step.smem, table.optional_expr("smem"));
  LATHE_TRY(step.carveout, table.optional_expr("carveout"));
  LATHE_TRY(step.cooperative, table.flag("cooperative", false));
  LATHE_TRY(step.programmatic, table.flag("programmatic", false));
  LATHE_TRY(step.args, read_args(table));
  LATHE_CHECK_OK(read_conditions(table, step));
  return step;
}

Result<PlanStep> read_node(const TomlTable& table) {
  LATHE_CHECK_OK(table.allow_only({"library", "nodes", "when", "repeat", "index"}, "[[node]]"));
  PlanStep step;
  step.kind = PlanStep::Kind::kNode;
  step.where = table.where();
  LATHE_TRY(step.library, table.required_text("library"));
  LATHE_TRY(step.nodes, table.texts("nodes"));
  if (step.nodes.empty()) return invalid("'nodes' must name at least one graph node", {}, step.where);
  if (step.nodes.size() > kMaxNodesOfStep)
    return invalid(fmt::format("a library step computes at most {} nodes", kMaxNodesOfStep),
                   "use several steps", table.where("nodes"));
  LATHE_CHECK_OK(read_conditions(table, step));
  return step;
}

Result<ScratchDecl> read_scratch(const TomlTable& table) {
  LATHE_CHECK_OK(table.allow_only({"name", "bytes", "init"}, "[[scratch]]"));
  ScratchDecl scratch;
  LATHE_TRY(scratch.name, table.required_text("name"));
  if (!is_identifier(scratch.name))
    return invalid("a scratch buffer's 'name' must be a name", {}, table.where());
  LATHE_TRY(auto bytes, table.optional_expr("bytes"));
  if (!bytes) return invalid("'bytes' is missing", "for example bytes = \"4 * M * N\"", table.where());
  scratch.bytes = *bytes;
  LATHE_TRY(const std::string init, table.choice("init", {"poison", "zero", "counter"}));
  if (init == "zero") scratch.init = ScratchInit::kZero;
  if (init == "counter") scratch.init = ScratchInit::kCounter;
  return scratch;
}

Result<TmaDecl> read_tma(const TomlTable& table) {
  LATHE_CHECK_OK(
      table.allow_only({"name", "base", "dtype", "dims", "strides", "box", "swizzle", "fill"}, "[[tma]]"));
  TmaDecl map;
  map.where = table.where();
  LATHE_TRY(map.name, table.required_text("name"));
  if (!is_identifier(map.name)) return invalid("a map's 'name' must be a name", {}, map.where);
  LATHE_TRY(map.base, table.required_text("base"));
  if (table.has("dtype")) {
    LATHE_TRY(map.dtype, table.dtype("dtype", DType::kF32));
  }
  LATHE_TRY(map.dims, table.exprs("dims", TmaDecl::kMaxRank));
  LATHE_TRY(map.strides, table.exprs("strides", TmaDecl::kMaxRank - 1));
  LATHE_TRY(map.box, table.exprs("box", TmaDecl::kMaxRank));
  if (map.dims.empty() || map.box.size() != map.dims.size())
    return invalid(fmt::format("a map needs as many 'box' extents as 'dims', got {} and {}", map.box.size(),
                               map.dims.size()),
                   "for example dims = [\"K\", \"M\"], box = [64, 128]: innermost first", map.where);
  if (!map.strides.empty() && map.strides.size() + 1 != map.dims.size())
    return invalid("'strides' has one entry, in bytes, for each dim but the innermost",
                   "omit it if the buffer is packed", map.where);
  LATHE_TRY(map.swizzle, table.optional_expr("swizzle"));
  LATHE_TRY(const std::string fill, table.choice("fill", {"zero", "nan"}));
  map.fill_nan = fill == "nan";
  return map;
}

/// Reads every table of `[[key]]` into the list.
template <class T>
Status read_each(const TomlTable& root, std::string_view key, std::size_t most,
                 Result<T> (*read)(const TomlTable&), std::vector<T>& list) {
  LATHE_TRY(const std::vector<TomlTable> tables, root.tables(key, most));
  for (const TomlTable& table : tables) {
    LATHE_TRY(T one, read(table));
    list.push_back(std::move(one));
  }
  return Ok{};
}

Result<Plan> read_plan(const TomlTable& table, const SourcePos& origin) {
  LATHE_CHECK_OK(table.allow_only(
      {"launch", "node", "scratch", "tma", "requires", "constants", "pattern", "knobs"}, "the front matter"));
  Plan plan;
  LATHE_TRY(plan.requires_, table.optional_expr("requires"));
  LATHE_TRY(plan.constants, table.texts("constants"));
  LATHE_TRY(plan.pattern, table.text("pattern", ""));
  LATHE_TRY(plan.knobs, table.text("knobs", ""));
  if (plan.constants.size() > kMaxConstants)
    return invalid(fmt::format("at most {} constants are allowed", kMaxConstants), {},
                   table.where("constants"));
  for (const std::string& constant : plan.constants)
    if (!is_identifier(constant))
      return invalid("'constants' must hold names of dims", {}, table.where("constants"));
  LATHE_CHECK_OK(read_each(table, "launch", kMaxPlanSteps, read_launch, plan.steps));
  LATHE_CHECK_OK(read_each(table, "node", kMaxPlanSteps, read_node, plan.steps));
  LATHE_CHECK_OK(read_each(table, "scratch", kMaxScratch, read_scratch, plan.scratch));
  LATHE_CHECK_OK(read_each(table, "tma", kMaxMaps, read_tma, plan.maps));
  if (plan.steps.empty())
    return invalid("the plan has no step",
                   "add a [[launch]] with kernel, items (CPU) or grid and block (GPU), and args", origin);
  if (plan.steps.size() > kMaxPlanSteps)
    return invalid(
        fmt::format("the plan has {} steps; at most {} are allowed", plan.steps.size(), kMaxPlanSteps),
        "use repeat", origin);
  // Launches and nodes are separate arrays in TOML; steps run in the order of the text.
  std::stable_sort(plan.steps.begin(), plan.steps.end(), [](const PlanStep& a, const PlanStep& b) {
    return std::pair(a.where.line, a.where.column) < std::pair(b.where.line, b.where.column);
  });
  return plan;
}

/// A dotted name: "ModelNew", "kernels.softmax".
bool is_entry(std::string_view text) {
  while (text.find('.') != std::string_view::npos) {
    if (!is_identifier(text.substr(0, text.find('.')))) return false;
    text.remove_prefix(text.find('.') + 1);
  }
  return is_identifier(text);
}

Result<HostProgram> read_host_program(const TomlTable& table) {
  LATHE_CHECK_OK(table.allow_only({"host", "requires"}, "the front matter of a host program"));
  HostProgram program;
  LATHE_TRY(program.requires_, table.optional_expr("requires"));
  if (!table.get("host")->is_table())
    return invalid("'host' must be a table", "for example [host] with language and entry",
                   table.where("host"));
  const TomlTable host = table.inner(*table.get("host"));
  LATHE_CHECK_OK(host.allow_only({"language", "entry"}, "[host]"));
  LATHE_TRY(program.language, host.required_text("language"));
  if (!is_identifier(program.language))
    return invalid("'language' must be a name", "for example \"python\"", host.where("language"));
  LATHE_TRY(program.entry, host.required_text("entry"));
  if (!is_entry(program.entry))
    return invalid("'entry' must be the name of a class or a function", "for example \"ModelNew\"",
                   host.where("entry"));
  return program;
}

}  // namespace

Result<Program> parse_front_matter(std::string_view front_matter, const SourcePos& where) {
  LATHE_TRY(const TomlDocument document, TomlDocument::parse(front_matter, where));
  if (document.root().has("host")) {
    LATHE_TRY(HostProgram program, read_host_program(document.root()));
    return Program(std::move(program));
  }
  LATHE_TRY(Plan plan, read_plan(document.root(), where));
  return Program(std::move(plan));
}

}  // namespace lathe
