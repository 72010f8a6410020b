#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "task/foreign_names.h"
#include "task/names.h"
#include "task/spec_parse.h"

namespace lathe {
namespace {

/// Of all results' shapes together. Extents refer to those of their inputs, so a chain of nodes can
/// double them at each step.
constexpr std::int64_t kMaxExtentTerms = 1 << 16;

constexpr std::string_view kKindNames[] = {
    "an integer",    "a number", "a number, or an expression in quotes",
    "true or false", "a string", "a list of integers"};

/// Whether a value fits an attribute's kind. Integers convert to reals and to lists of one;
/// expressions in quotes are integers.
bool fits(const AttrValue& value, AttrKind kind) {
  const bool integer = std::holds_alternative<std::int64_t>(value);
  switch (kind) {
    case AttrKind::kInteger:
      return integer || std::holds_alternative<std::string>(value);
    case AttrKind::kReal:
      return integer || std::holds_alternative<double>(value);
    case AttrKind::kNumber:
      return integer || std::holds_alternative<double>(value) || std::holds_alternative<std::string>(value);
    case AttrKind::kFlag:
      return std::holds_alternative<bool>(value);
    case AttrKind::kText:
      return std::holds_alternative<std::string>(value);
    case AttrKind::kIntegers:
      return integer || std::holds_alternative<std::vector<std::int64_t>>(value) ||
             std::holds_alternative<std::vector<std::string>>(value);
  }
  return false;
}

/// Expressions inside an attribute must parse and name dims only.
Status check_expressions(const AttrValue& value, AttrKind kind, const TaskSpec& spec,
                         const SourcePos& where) {
  std::vector<std::string> texts;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) texts = *list;
  const bool is_number = kind == AttrKind::kInteger || kind == AttrKind::kNumber;
  if (const auto* alone = std::get_if<std::string>(&value); alone != nullptr && is_number)
    texts.push_back(*alone);
  for (const std::string& text : texts) {
    LATHE_TRY(const Expr expr, Expr::parse(text, where));
    for (const std::string& symbol : expr.symbols()) {
      if (std::ranges::find(spec.dim_names, symbol) != spec.dim_names.end()) continue;
      return invalid(fmt::format("'{}' is not a dim", symbol), did_you_mean(symbol, spec.dim_names), where);
    }
  }
  return Ok{};
}

/// Empty if the op has no attribute that the hint names.
std::string foreign_attribute_hint(std::string_view op, std::string_view attribute,
                                   const std::vector<std::string>& names) {
  std::string hint = hint_for_foreign_attribute(op, attribute);
  const auto named = [&](const std::string& name) {
    return hint.find("'" + name + "'") != std::string::npos;
  };
  if (hint.find('\'') != std::string::npos && std::ranges::none_of(names, named)) hint.clear();
  return hint;
}

Status resolve_attr(const RawAttr& attr, const std::vector<AttrRule>& rules, const TaskSpec& spec,
                    NodeDecl& node) {
  const auto rule = std::ranges::find(rules, attr.name, &AttrRule::name);
  if (rule == rules.end()) {
    std::vector<std::string> names;
    for (const AttrRule& known : rules) names.emplace_back(known.name);
    std::string hint = foreign_attribute_hint(node.op_name, attr.name, names);
    if (hint.empty()) hint = did_you_mean(attr.name, names);
    return invalid(fmt::format("op {} has no attribute '{}'", node.op_name, attr.name), std::move(hint),
                   attr.where);
  }
  if (node.attrs.has(attr.name)) {
    return invalid(fmt::format("attribute '{}' is given twice", attr.name), {}, attr.where);
  }
  if (!fits(attr.value, rule->kind)) {
    return invalid(
        fmt::format("attribute '{}' must be {}", attr.name, kKindNames[static_cast<std::size_t>(rule->kind)]),
        {}, attr.where);
  }
  if (const auto* number = std::get_if<double>(&attr.value); number != nullptr && std::isnan(*number))
    return invalid(fmt::format("attribute '{}' is not a number", attr.name), "write one, or inf", attr.where);
  LATHE_CHECK_OK(check_expressions(attr.value, rule->kind, spec, attr.where));
  if (rule->kind == AttrKind::kText && !rule->choices.empty()) {
    const auto& chosen = std::get<std::string>(attr.value);
    if (std::ranges::find(rule->choices, chosen) == rule->choices.end()) {
      return invalid(
          fmt::format("attribute '{}' cannot be '{}'", attr.name, chosen),
          did_you_mean(chosen, std::vector<std::string>(rule->choices.begin(), rule->choices.end())),
          attr.where);
    }
  }
  node.attrs.set(attr.name, attr.value);
  return Ok{};
}

constexpr const char* kNoSuchOp =
    "docs/tasks.md lists all ops, and what common computations are made of; of what cannot be made of them, "
    "write the reference in C++ (reference = \"native\")";

Status resolve_op(const RawNode& raw, NodeDecl& node) {
  node.op = find_op(raw.op);
  if (node.op == nullptr) {
    std::vector<std::string> names;
    for (const Op* op : all_ops()) names.emplace_back(op->name());
    std::string hint = hint_for_foreign_op(raw.op);
    if (hint.empty()) hint = did_you_mean(raw.op, names);
    if (hint.starts_with("allowed")) hint = kNoSuchOp;
    return invalid(fmt::format("unknown op '{}'", raw.op), std::move(hint), raw.where);
  }
  const int count = static_cast<int>(raw.in.size());
  if (count < node.op->min_inputs() || count > node.op->max_inputs()) {
    const int low = node.op->min_inputs();
    const int high = node.op->max_inputs();
    return invalid(fmt::format("op {} takes {} inputs, not {}", raw.op,
                               low == high ? std::to_string(low) : fmt::format("{} to {}", low, high), count),
                   {}, raw.where);
  }
  return Ok{};
}

/// The types of the values defined so far, by name.
using Types = std::map<std::string, SymbolicType, std::less<>>;

Status check_result_name(const RawNode& raw, const TaskSpec& spec) {
  if (!is_usable_name(raw.out)) {
    return invalid(fmt::format("'{}' cannot name a result", raw.out.substr(0, 80)),
                   "use a C identifier that is no keyword, such as h or y", raw.where);
  }
  const TensorDecl* tensor = spec.find_tensor(raw.out);
  const bool is_dim = std::ranges::find(spec.dim_names, raw.out) != spec.dim_names.end();
  const bool taken =
      spec.find_node(raw.out) != nullptr || is_dim || (tensor != nullptr && tensor->role != Role::kInOut);
  if (!taken) return Ok{};
  return invalid(fmt::format("'{}' is declared twice", raw.out),
                 is_dim ? "it names a dim: values, tensors and dims share one namespace"
                        : "only an inout tensor can be written by a node, and only once",
                 raw.where);
}

Result<std::vector<SymbolicType>> input_types(const RawNode& raw, const Types& types,
                                              const std::vector<RawNode>& all) {
  std::vector<SymbolicType> list;
  for (const RawInput& input : raw.in) {
    const auto found = types.find(input.name);
    if (found != types.end()) {
      list.push_back(found->second);
      continue;
    }
    if (std::ranges::any_of(all, [&](const RawNode& node) { return node.out == input.name; })) {
      return invalid(fmt::format("'{}' is used before it is computed", input.name),
                     "define nodes in order of evaluation", input.where);
    }
    std::vector<std::string> names;
    for (const auto& [name, type] : types) names.push_back(name);
    return invalid(fmt::format("unknown input '{}'", input.name), did_you_mean(input.name, names),
                   input.where);
  }
  return list;
}

bool same_everywhere(const Expr& a, const Expr& b, const std::vector<Dims>& probes) {
  if (a.to_string() == b.to_string()) return true;
  return std::ranges::all_of(probes, [&](const Dims& dims) {
    const Result<std::int64_t> left = a.evaluate(dims);
    const Result<std::int64_t> right = b.evaluate(dims);
    return left.ok() && right.ok() && *left == *right;
  });
}

/// Whether the tensor's values are in the range whatever is drawn.
bool keeps_to(const TensorDecl& tensor, const ValueRange& range) {
  const auto has = [&](double x) { return x >= range.low && x <= range.high; };
  const Generator& gen = tensor.generator;
  if (tensor.value) return has(*tensor.value);
  if (gen.kind == "zeros_ones" || gen.kind == "one_hot") return has(0) && has(1);
  return gen.bounded && has(gen.low) && has(gen.high);
}

/// Of indices that the graph computes, only their author knows.
Status check_order(const RawNode& raw, const NodeDecl& node, const TaskSpec& spec) {
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const TensorDecl* tensor = spec.find_tensor(node.in[i]);
    const Order order = node.op->order_of(i);
    if (tensor == nullptr || order == Order::kAny || tensor->generator.order == order) continue;
    const std::string_view name = order == Order::kDistinct ? "distinct" : "offsets";
    return invalid(
        fmt::format("{} takes {} as input {}", node.op_name,
                    order == Order::kDistinct ? "indices of which none occurs twice" : "offsets", i + 1),
        fmt::format("declare '{}' with role = \"index\" and gen = {{ kind = \"index\", limit = ..., order = "
                    "\"{}\" }}",
                    tensor->name, name),
        raw.in[i].where);
  }
  return Ok{};
}

/// Of values that the graph computes, only their author knows.
Status check_values(const RawNode& raw, const NodeDecl& node, const TaskSpec& spec) {
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const TensorDecl* tensor = spec.find_tensor(node.in[i]);
    if (tensor == nullptr) continue;
    const std::optional<ValueRange> range = node.op->takes(i, tensor->dtype);
    if (!range || keeps_to(*tensor, *range)) continue;
    return invalid(fmt::format("{} takes values from {} to {} as input {}, which '{}' does not keep to",
                               node.op_name, range->low, range->high, i + 1, tensor->name),
                   fmt::format("declare it with gen = {{ kind = \"uniform\", low = {}, high = {} }}",
                               range->low, range->high),
                   raw.in[i].where);
  }
  return Ok{};
}

/// If the node is wrong at some shapes of the domain alone, says at which.
void name_the_shape(const NodeDecl& node, const std::vector<SymbolicType>& in,
                    const std::vector<Dims>& probes, Error& error) {
  const auto fails = [&](const Dims& dims) {
    const std::vector<Dims> alone = {dims};
    const auto same = [&](const Expr& a, const Expr& b) { return same_everywhere(a, b, alone); };
    return !node.op->infer({node.attrs, in, same}).ok();
  };
  const auto wrong = std::ranges::find_if(probes, fails);
  if (wrong == probes.end() || std::ranges::all_of(probes, fails)) return;
  std::string shape;
  for (const auto& [name, extent] : *wrong)
    shape += fmt::format("{}{} = {}", shape.empty() ? "" : ", ", name, extent);
  error.message += fmt::format(", for {}", shape);
  error.hint += std::string(error.hint.empty() ? "" : "; ") +
                "every shape within dims and where counts: narrow them, dims = { N = [8, 1024] } or where = "
                "\"N >= 8\"";
}

Status resolve_node(const RawNode& raw, const std::vector<RawNode>& all, const std::vector<Dims>& probes,
                    Types& types, TaskSpec& spec) {
  NodeDecl node{.out = raw.out, .op_name = raw.op, .where = raw.where};
  LATHE_CHECK_OK(check_result_name(raw, spec));
  LATHE_CHECK_OK(resolve_op(raw, node));
  const std::vector<AttrRule> rules = node.op->attr_rules();
  for (const RawAttr& attr : raw.attrs) LATHE_CHECK_OK(resolve_attr(attr, rules, spec, node));
  for (const AttrRule& rule : rules) {
    if (rule.required && !node.attrs.has(rule.name)) {
      return invalid(fmt::format("op {} needs the attribute '{}'", raw.op, rule.name),
                     fmt::format("add {} = ...", rule.name), raw.where);
    }
  }
  const auto same = [&](const Expr& a, const Expr& b) { return same_everywhere(a, b, probes); };
  LATHE_TRY(std::vector<SymbolicType> in, input_types(raw, types, all));
  for (const RawInput& input : raw.in) node.in.push_back(input.name);
  Result<SymbolicType> type = node.op->infer({node.attrs, in, same});
  if (!type.ok()) {
    Error error = std::move(type).error();
    error.message = fmt::format("{}: {}", raw.op, error.message);
    name_the_shape(node, in, probes, error);
    if (error.where.line == 0) error.where = raw.where;
    return error;
  }
  node.type = *type;
  LATHE_CHECK_OK(check_values(raw, node, spec));
  LATHE_CHECK_OK(check_order(raw, node, spec));
  if (const TensorDecl* tensor = spec.find_tensor(raw.out)) {
    if (tensor->dtype != type->dtype || !std::ranges::equal(tensor->shape, type->shape, same)) {
      return invalid(fmt::format("'{}' is written with another shape or dtype than it is declared", raw.out),
                     {}, raw.where);
    }
  }
  types[raw.out] = *type;
  spec.nodes.push_back(std::move(node));
  return Ok{};
}

}  // namespace

Status resolve_nodes(const std::vector<RawNode>& raw, TaskSpec& spec) {
  if (spec.reference != ReferenceKind::kGraph) {
    if (raw.empty()) return Ok{};
    return invalid("only the reference of a graph has nodes", "drop them, or the reference",
                   raw.front().where);
  }
  const std::vector<Dims> probes = probe_shapes(spec);
  Types types;
  for (const TensorDecl& tensor : spec.tensors) types[tensor.name] = {tensor.dtype, tensor.shape};
  std::int64_t terms = 0;
  for (const RawNode& node : raw) {
    LATHE_CHECK_OK(resolve_node(node, raw, probes, types, spec));
    for (const Expr& extent : types[node.out].shape) terms += extent.terms();
    if (terms > kMaxExtentTerms)
      return invalid(
          fmt::format("up to '{}' the shapes of the results have {} terms", node.out, terms),
          fmt::format("at most {} are allowed: each concat or pad adds to the extents that it is given",
                      kMaxExtentTerms),
          node.where);
  }
  return Ok{};
}

}  // namespace lathe
