#include "policy/catalog/lower/lower.h"

#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

constexpr const char* kRemedy =
    "it computes in fp32, of fp32, fp16 and bf16, with masks and indices; write the kernel by hand, or let a "
    "model write it (--policy openai)";
constexpr const char* kOthersCan = "write the kernel by hand, or let a model write it (--policy openai)";

bool is_byte(DType dtype) { return dtype == DType::kBool || dtype == DType::kI8; }

bool is_supported(DType dtype, bool computed) {
  if (dtype == DType::kF32 || is_narrow(dtype) || is_byte(dtype)) return true;
  return (dtype == DType::kI32 || dtype == DType::kI64) && !computed;
}

/// Kernels hold every value as fp32: bytes are exact in it, wider integers are not, and what moves
/// or reduces whole rows takes fp32 from memory.
Status check_operands(const Graph& graph, const NodeDecl& node) {
  const bool of_masks = node.op_name == "any" || node.op_name == "all";  // reads them one by one, too
  const bool elementwise = node.op->op_class() == OpClass::kElementwise || of_masks;
  const auto refuse = [&](DType dtype) {
    return Error{ErrorCode::kUnavailable,
                 "the catalogue's " + node.op_name + " does not take " + std::string(info(dtype).name)};
  };
  if (!elementwise && is_byte(node.type.dtype)) return refuse(node.type.dtype);
  for (const std::string& name : node.in) {
    const DType dtype = graph.type_of(name).dtype;
    if (!elementwise && is_byte(dtype)) return refuse(dtype);
    const bool compares = elementwise && node.in.size() == 2 && node.type.dtype == DType::kBool &&
                          !node.op_name.starts_with("logical");
    if (compares && dtype != DType::kF32 && !is_narrow(dtype) && !is_byte(dtype)) return refuse(dtype);
  }
  return Ok{};
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
    return Error{ErrorCode::kUnavailable, "the catalogue needs a task whose reference is a graph"};
  Graph graph{.task = &task, .nodes = {}, .types = {}, .iotas = {}, .counted = {}, .written = {}, .dims = {}};
  for (const std::string& dim : task.dim_names) graph.dims[name_in_code(dim)] = dim;
  for (const TensorDecl& tensor : task.tensors) {
    if (!is_supported(tensor.dtype, false))
      return Error{ErrorCode::kUnavailable,
                   "the catalogue has no kernels for " + std::string(info(tensor.dtype).name), kRemedy};
    graph.types[tensor.name] = {tensor.dtype, tensor.shape};
    for (Expr& extent : graph.types[tensor.name].shape) extent = to_code(graph, extent);
  }
  for (const NodeDecl& declared : task.nodes) {
    NodeDecl node = declared;
    for (std::string& operand : node.in) operand = graph.result_of(operand);
    if (graph.is_input(node.out)) node.out = graph.unused(node.out + "_written");
    for (Expr& extent : node.type.shape) extent = to_code(graph, extent);
    const bool index = node.op_name.starts_with("arg");
    if (!is_supported(node.type.dtype, !index))
      return Error{ErrorCode::kUnavailable,
                   "the catalogue does not compute " + std::string(info(node.type.dtype).name), kRemedy};
    LATHE_CHECK_OK(check_operands(graph, node));
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
