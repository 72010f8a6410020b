#include "policy/catalog/lower/lower.h"

#include <algorithm>
#include <array>
#include <utility>

#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

constexpr const char* kOthersCan = "write the kernel by hand, or let a model write it (--policy openai)";

/// Ops whose formulas have constants of eight digits.
constexpr std::array<std::string_view, 3> kNarrowConstants = {"gelu", "hardsigmoid", "hardswish"};

/// Whether the node has kernels for values of this type. Elementwise formulas and reductions have
/// them for all, and so has what only moves and compares values.
bool takes(const NodeDecl& node, DType dtype) {
  if (dtype == DType::kF32 || is_narrow(dtype)) return true;
  switch (node.op->op_class()) {
    case OpClass::kElementwise:
      return dtype != DType::kF64 || std::ranges::count(kNarrowConstants, node.op_name) == 0;
    case OpClass::kReduce:
    case OpClass::kMove:
    case OpClass::kScan:
      return true;
    case OpClass::kRowwise:
      return node.op_name == "sort" || dtype == DType::kF64;
    case OpClass::kLoss:
    case OpClass::kContraction:
      return dtype == DType::kF64 || node.op_name == "matmul";
    default:
      return node.op_name == "argsort" || node.op_name.starts_with("scatter") || node.op_name == "outer" ||
             (node.op_name == "bincount" && is_wide(dtype));
  }
}

/// Operands that say where, not what.
bool is_index_of(const NodeDecl& node, std::size_t operand) {
  static constexpr std::array<std::pair<std::string_view, std::size_t>, 15> kIndices = {
      {{"gather", 1},
       {"embedding", 1},
       {"take_along", 1},
       {"scatter", 1},
       {"scatter_add", 1},
       {"scatter_max", 1},
       {"scatter_min", 1},
       {"segment_sum", 1},
       {"segment_max", 1},
       {"segment_min", 1},
       {"grouped_matmul", 2},
       {"bincount", 0},
       {"nll_loss", 1},
       {"cross_entropy", 1},
       {"attention", 3}}};
  return std::ranges::find(kIndices, std::pair(std::string_view(node.op_name), operand)) != kIndices.end();
}

Status check_types(const Graph& graph, const NodeDecl& node) {
  const auto refuse = [&](DType dtype) {
    return Error{ErrorCode::kUnavailable,
                 "the catalogue's " + node.op_name + " does not take " + std::string(info(dtype).name),
                 kOthersCan};
  };
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const DType dtype = graph.type_of(node.in[i]).dtype;
    const bool index = is_index_of(node, i) && (dtype == DType::kI32 || dtype == DType::kI64);
    if (!index && !takes(node, dtype)) return refuse(dtype);
  }
  return takes(node, node.type.dtype) ? Status(Ok{}) : Status(refuse(node.type.dtype));
}

/// Elementwise ops count positions as they go, which joins their loops; a channel's are reshaped.
void count_positions(const Graph& graph, NodeDecl& node) {
  if (node.op->op_class() != OpClass::kElementwise || node.op->channel_axis(node.attrs)) return;
  for (std::string& operand : node.in)
    if (const auto index = graph.counted.find(operand); index != graph.counted.end()) operand = index->second;
}

}  // namespace

Result<Graph> lower(const TaskSpec& task, NarrowProducts products) {
  if (task.reference != ReferenceKind::kGraph)
    return Error{ErrorCode::kInvalid,
                 "the catalogue needs a graph, and '" + task.name + "' has none: its reference is code",
                 task.reference == ReferenceKind::kProcess
                     ? "write a Python module, and judge it with lathe eval --device host:cpu (docs/host.md)"
                     : kOthersCan};
  Graph graph{.task = &task, .nodes = {}, .types = {}, .iotas = {}, .counted = {}, .written = {}, .dims = {}};
  for (const std::string& dim : task.dim_names) graph.dims[name_in_code(dim)] = dim;
  for (const TensorDecl& tensor : task.tensors) {
    graph.types[tensor.name] = {tensor.dtype, tensor.shape};
    for (Expr& extent : graph.types[tensor.name].shape) extent = to_code(graph, extent);
  }
  for (const NodeDecl& declared : task.nodes) {
    NodeDecl node = declared;
    for (std::string& operand : node.in) operand = graph.result_of(operand);
    if (graph.is_input(node.out)) node.out = graph.unused(node.out + "_written");
    for (Expr& extent : node.type.shape) extent = to_code(graph, extent);
    LATHE_CHECK_OK(check_types(graph, node));
    count_positions(graph, node);
    Lowering to(graph, node);
    const bool done = lower_elementwise(to) || lower_reduction(to) || lower_normalisation(to) ||
                      lower_loss(to) || lower_contraction(to) || lower_stencil(to) || lower_move(to) ||
                      lower_attention(to);
    if (!done)
      return Error{ErrorCode::kUnavailable, "the catalogue does not know op " + node.op_name, kOthersCan};
    graph.types[node.out] = node.type;
    if (node.out != declared.out) graph.written[declared.out] = node.out;
  }
  hold_in_fp32(graph, products);
  return graph;
}

}  // namespace lathe::catalog
