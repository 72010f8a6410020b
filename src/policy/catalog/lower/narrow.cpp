#include <algorithm>
#include <optional>
#include <utility>

#include "policy/catalog/ir/group.h"
#include "policy/catalog/lower/lowering.h"

// Tensors of 16 and 8 bits: kernels compute in fp32. Loops read and write such a tensor themselves,
// and what only moves its elements leaves them as they are; pools and scans take fp32 from memory,
// so they get a wider copy. So do products, unless the target multiplies numbers of 16 bits.

namespace lathe::catalog {
namespace {

class Widener {
 public:
  Widener(Graph& graph, NarrowProducts products) : graph_(graph), products_(products) {
    for (const OutputDecl& output : graph.task->outputs)
      if (is_narrow(output.dtype)) kept_[root_of(graph, graph.result_of(output.name))] = output.dtype;
  }

  void run() {
    for (Primitive& node : std::exchange(graph_.nodes, {})) {
      const bool view = node.kind == Kind::kView;
      if (view) {
        node.type.dtype = graph_.type_of(node.in[0]).dtype;
      } else if (is_narrow(node.type.dtype)) {
        node.type.dtype = DType::kF32;
      }
      const std::optional<DType> moved = moved_type(node);
      if (moved) node.type.dtype = *moved;
      const bool reads_any = node.kind == Kind::kApply || node.kind == Kind::kReduce ||
                             node.kind == Kind::kSort || (node.kind == Kind::kSegments && node.how == "add");
      if (const std::optional<DType> multiplied = multiplied_type(node)) {
        for (std::string& operand : node.in) operand = narrowed(operand, *multiplied);
      } else if (!reads_any && !view && !moved) {
        for (std::string& operand : node.in) operand = widened(operand);
      }
      const auto kept = kept_.find(node.out);
      if (view || moved || kept == kept_.end()) {
        append(std::move(node));
      } else if (node.kind == Kind::kApply) {
        node.type.dtype = kept->second;
        append(std::move(node));
      } else {
        append_narrowed(std::move(node), kept->second);
      }
    }
  }

 private:
  void append(Primitive node) {
    graph_.types[node.out] = node.type;
    graph_.nodes.push_back(std::move(node));
  }

  /// The narrow type of all that the node only moves.
  std::optional<DType> moved_type(const Primitive& node) const {
    const bool scatters = node.kind == Kind::kSegments && node.how.starts_with("scatter");
    const bool sorts = node.kind == Kind::kSort && node.how == "values";
    const bool chooses = node.kind == Kind::kWindows && node.how == "first";
    if (!scatters && !sorts && !chooses && node.kind != Kind::kMove && node.kind != Kind::kPermute)
      return std::nullopt;
    std::vector<std::string> moved = {node.in[0]};
    if (scatters) moved.push_back(node.in[2]);
    if (node.how == "concat") moved = node.in;
    const DType dtype = graph_.type_of(moved[0]).dtype;
    const bool alike = std::ranges::all_of(
        moved, [&](const std::string& operand) { return graph_.type_of(operand).dtype == dtype; });
    return is_narrow(dtype) && alike ? std::optional(dtype) : std::nullopt;
  }

  /// The narrow type of both factors of a product that takes them as they are.
  std::optional<DType> multiplied_type(const Primitive& node) const {
    const bool convolves = node.kind == Kind::kConvolve && products_ == NarrowProducts::kBf16AsTheyAre;
    if (node.kind != Kind::kContract && !convolves) return std::nullopt;
    if (products_ == NarrowProducts::kWidened) return std::nullopt;
    const DType a = rounded_type(node.in[0]), b = rounded_type(node.in[1]);
    const bool taken = a == DType::kBF16 || (a == DType::kF16 && products_ == NarrowProducts::kAsTheyAre);
    return taken && a == b ? std::optional(a) : std::nullopt;
  }

  /// What the task lets a value be rounded to: an intermediate result of an op to nothing less than
  /// fp32, that of a node to the node's type.
  DType rounded_type(const std::string& value) const {
    const DType held = graph_.type_of(value).dtype;
    const NodeDecl* node = is_narrow(held) ? nullptr : graph_.task->find_node(value);
    return node == nullptr ? held : node->type.dtype;
  }

  std::string narrowed(const std::string& value, DType dtype) {
    return graph_.type_of(value).dtype == dtype ? value : copied(value, dtype, "_narrow");
  }

  void append_narrowed(Primitive node, DType dtype) {
    Primitive narrowed{.kind = Kind::kApply,
                       .out = node.out,
                       .in = {graph_.unused(node.out + "_wide")},
                       .type = {dtype, node.type.shape},
                       .formula = same_value};
    node.out = narrowed.in[0];
    append(std::move(node));
    append(std::move(narrowed));
  }

  std::string widened(const std::string& value) {
    return is_narrow(graph_.type_of(value).dtype) ? copied(value, DType::kF32, "_wide") : value;
  }

  std::string copied(const std::string& value, DType dtype, const std::string& suffix) {
    const auto [known, added] = copies_.try_emplace(value);
    if (added) {
      known->second = graph_.unused(value + suffix);
      append({.kind = Kind::kApply,
              .out = known->second,
              .in = {value},
              .type = {dtype, graph_.type_of(value).shape},
              .formula = same_value});
    }
    return known->second;
  }

  Graph& graph_;
  NarrowProducts products_;
  std::map<std::string, DType> kept_;          // values that narrow outputs' buffers hold
  std::map<std::string, std::string> copies_;  // of values, of the other width
};

}  // namespace

bool is_narrow(DType dtype) { return info(dtype).is_float && info(dtype).bytes < info(DType::kF32).bytes; }

void hold_in_fp32(Graph& graph, NarrowProducts products) { Widener(graph, products).run(); }

}  // namespace lathe::catalog
