#include "baseline/naive/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

namespace lathe::naive {
namespace {

// Names that a task chooses are prefixed, so that none meets a local of the emitted code.
std::string dim_name(const std::string& dim) { return "n_" + dim; }
std::string tensor_name(const std::string& tensor) { return "p_" + tensor; }

/// Renames dims between the task and the C code.
class DimNames {
 public:
  explicit DimNames(const TaskSpec& task) {
    for (const std::string& dim : task.dim_names) {
      to_c_.insert_or_assign(dim, Expr::symbol(dim_name(dim)));
      from_c_.insert_or_assign(dim_name(dim), Expr::symbol(dim));
    }
  }
  Expr to_task(const Expr& expr) const { return expr.substitute(from_c_); }
  std::vector<Expr> to_c(const std::vector<Expr>& shape) const {
    std::vector<Expr> result;
    for (const Expr& extent : shape) result.push_back(extent.substitute(to_c_));
    return result;
  }
  /// Texts that are expressions are renamed, or become numbers.
  Attrs to_c(const Attrs& attrs, const Op& op) const {
    Attrs result = attrs;
    for (const AttrRule& rule : op.attr_rules()) {
      const auto value = attrs.all().find(rule.name);
      if (value == attrs.all().end()) continue;
      const bool is_number = rule.kind == AttrKind::kInteger || rule.kind == AttrKind::kNumber;
      if (is_number && std::holds_alternative<std::string>(value->second)) {
        const Expr expr = to_c({*attrs.expression(rule.name, {})}).front();
        expr.is_constant() ? result.set(value->first, *expr.evaluate({}))
                           : result.set(value->first, expr.to_string());
      } else if (std::holds_alternative<std::vector<std::string>>(value->second)) {
        std::vector<std::string> texts;
        for (const Expr& expr : to_c(*attrs.expressions(rule.name, {}))) texts.push_back(expr.to_string());
        result.set(value->first, std::move(texts));
      }
    }
    return result;
  }

 private:
  std::map<std::string, Expr> to_c_;
  std::map<std::string, Expr> from_c_;
};

Operand operand_of(const TaskSpec& task, const DimNames& names, const std::string& name) {
  if (const TensorDecl* tensor = task.find_tensor(name))
    return {tensor_name(name), tensor->dtype, names.to_c(tensor->shape), tensor->role == Role::kScalar};
  const NodeDecl& node = *task.find_node(name);
  return {tensor_name(name), node.type.dtype, names.to_c(node.type.shape), false};
}

bool mentions(std::string_view code, std::string_view word) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = code.find(word); at != code.npos; at = code.find(word, at + 1)) {
    const bool starts = at == 0 || !is_word(code[at - 1]);
    const std::size_t end = at + word.size();
    if (starts && (end == code.size() || !is_word(code[end]))) return true;
  }
  return false;
}

constexpr std::string_view kCpuKernel = R"(
extern "C" void $name(${parameters}int64_t begin, int64_t end) {
  for (int64_t item = begin; item < end; ++item) {
    $body
  }
}
)";

constexpr std::string_view kCudaKernel = R"(
extern "C" __global__ void $name(${parameters}int64_t items) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items; item += step) {
    $body
  }
}
)";

struct Parameters {
  std::vector<std::string> args;
  std::string text;

  void add(const std::string& arg, const std::string& declaration) {
    args.push_back(arg);
    text += declaration + ", ";
  }
};

Parameters parameters_of(const TaskSpec& task, const NodeDecl& node, const Site& site,
                         const std::string& body, const std::string& work, const std::string& before) {
  Parameters parameters;
  std::set<std::string> seen{node.out};
  bool in_place = false;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const bool itself = node.in[i] == node.out;
    const std::string& buffer = itself && !before.empty() ? before : node.in[i];
    in_place |= itself && before.empty();
    if (!seen.insert(buffer).second || !mentions(body, site.in[i].name)) continue;
    const Operand& operand = site.in[i];
    parameters.add(buffer, operand.by_value ? operand.c_type() + " " + operand.name
                                            : "const " + operand.c_type() + "* " + operand.name);
  }
  parameters.add(node.out, site.out.c_type() + (in_place ? "* " : "* __restrict ") + site.out.name);
  if (!work.empty()) parameters.add(work, "float* __restrict work");
  for (const std::string& dim : task.dim_names)
    if (mentions(body, dim_name(dim))) parameters.add(dim, "int64_t " + dim_name(dim));
  return parameters;
}

/// Ops whose formulas have constants of eight digits.
constexpr std::array<std::string_view, 3> kNarrowConstants = {"gelu", "hardsigmoid", "hardswish"};

std::string kernel_text(const std::string& name, const std::string& parameters, const std::string& body,
                        Dialect dialect) {
  return expand(dialect == Dialect::kCuda ? kCudaKernel : kCpuKernel,
                {{"name", name}, {"parameters", parameters}, {"body", body}});
}

}  // namespace

bool reads_what_it_overwrites(const NodeDecl& node) {
  const OpClass kind = node.op->op_class();
  const bool reads_first =
      kind == OpClass::kElementwise || kind == OpClass::kRowwise || kind == OpClass::kScan;
  return !reads_first && std::ranges::find(node.in, node.out) != node.in.end();
}

Kernel copy_kernel(const TaskSpec& task, const NodeDecl& node, const std::string& before, Dialect dialect) {
  const DimNames names(task);
  const Operand from = operand_of(task, names, node.out);
  const std::string type = from.c_type(), to = tensor_name(before);
  Kernel kernel{"naive_" + before, names.to_task(from.count()), {node.out, before}, {}};
  kernel.code =
      kernel_text(kernel.name, "const " + type + "* " + from.name + ", " + type + "* __restrict " + to + ", ",
                  to + "[item] = " + from.at("item") + ";", dialect);
  return kernel;
}

Result<std::vector<Kernel>> make_kernels(const TaskSpec& task, const NodeDecl& node, Dialect dialect,
                                         const std::string& before) {
  const Emitter emit = find_emitter(*node.op);
  if (!emit) return invalid("the naive build has no loop nest for op '" + node.op_name + "'", {}, node.where);
  const DimNames names(task);
  const bool cuda = dialect == Dialect::kCuda;
  Site site{*node.op, names.to_c(node.attrs, *node.op), {}, operand_of(task, names, node.out), {}, cuda};
  for (const auto& [dim, range] : task.dim_ranges) site.largest[dim_name(dim)] = range.high;
  for (const std::string& name : node.in) {
    site.in.push_back(operand_of(task, names, name));
    if (name == node.out && !before.empty()) site.in.back().name = tensor_name(before);
  }
  site.in.push_back(site.out);
  for (std::size_t i = 0; i < site.in.size(); ++i)
    if (site.in[i].c_type().empty())
      return invalid("the naive build cannot compute with " + std::string(info(site.in[i].dtype).name) +
                         ", the dtype of '" + (i < node.in.size() ? node.in[i] : node.out) + "'",
                     "declare it fp32, fp16, bf16, fp64 or a whole number", node.where);
  site.in.pop_back();
  const LoopNest nest = emit(site);
  const auto is_wide = [](const Operand& operand) { return operand.dtype == DType::kF64; };
  const bool wide = is_wide(site.out) || std::ranges::any_of(site.in, is_wide);
  if (wide && std::ranges::count(kNarrowConstants, node.op_name) > 0)
    return invalid(fmt::format("the naive build computes {} in fp32 only", node.op_name),
                   "cast to fp32 before it", node.where);
  std::vector<Kernel> kernels;
  const auto add = [&](const LoopNest& one, const std::string& name) {
    const std::string body = wide ? with_wide_numbers(one.body) : one.body;
    kernels.push_back({.name = name, .items = names.to_task(one.items), .args = {}, .code = {}});
    Kernel& kernel = kernels.back();
    if (mentions(body, "work")) {
      kernel.work_name = node.out + "_work";
      kernel.work_bytes = Expr::constant(4) * names.to_task(nest.work);
      kernel.work_zeroed = nest.zeroed;
    }
    const Parameters parameters = parameters_of(task, node, site, body, kernel.work_name, before);
    kernel.args = parameters.args;
    kernel.code = kernel_text(kernel.name, parameters.text, body, dialect);
  };
  for (std::size_t i = 0; i < nest.before.size(); ++i)
    add(nest.before[i], fmt::format("naive_{}_{}", i + 1, node.out));
  add(nest, "naive_" + node.out);
  return kernels;
}

}  // namespace lathe::naive
