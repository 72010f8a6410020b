#include <limits>
#include <map>

#include "baseline/vendor/onednn.h"

namespace lathe::vendor {
namespace {

using dnnl::algorithm;

const std::map<std::string, Eltwise, std::less<>>& fixed_eltwise() {
  static const std::map<std::string, Eltwise, std::less<>> table = {
      {"relu", {algorithm::eltwise_relu}},
      {"tanh", {algorithm::eltwise_tanh}},
      {"sigmoid", {algorithm::eltwise_logistic}},
      {"silu", {algorithm::eltwise_swish, 1}},
      {"softplus", {algorithm::eltwise_soft_relu}},
      {"mish", {algorithm::eltwise_mish}},
      {"hardswish", {algorithm::eltwise_hardswish}},
      {"exp", {algorithm::eltwise_exp}},
      {"sqrt", {algorithm::eltwise_sqrt}},
      {"square", {algorithm::eltwise_square}},
      {"abs", {algorithm::eltwise_abs}},
      {"neg", {algorithm::eltwise_linear, -1, 0}},
  };
  return table;
}

/// The operand that is not the previous node's value, if there is exactly one.
const Operand* other_operand(const Node& node, int previous) {
  if (node.in.size() != 2) return nullptr;
  if (node.in[0].node == previous && node.in[1].buffer >= 0) return &node.in[1];
  if (node.in[1].node == previous && node.in[0].buffer >= 0) return &node.in[0];
  return nullptr;
}

/// The extents under which the primitive must see `operand`, or nullopt if it does not broadcast
/// that way.
std::optional<Extents> broadcast_extents(const Node& node, const Operand& operand, const Extents& result,
                                         std::size_t channel_axis) {
  const Extents& out = node.out.shape;
  const Extents aligned = aligned_extents(node, operand);
  if (aligned == out) return result;
  Extents channel(result.size(), 1);
  channel[channel_axis] = result[channel_axis];
  // Only leading axes are merged, so the channel axis keeps its distance from the end.
  const std::size_t axis_in_out = out.size() - (result.size() - channel_axis);
  for (std::size_t i = 0; i < aligned.size(); ++i)
    if (aligned[i] != (i == axis_in_out ? result[channel_axis] : 1)) return std::nullopt;
  return channel;
}

}  // namespace

std::optional<Eltwise> eltwise_of(const Node& node) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto number = [&](const char* name, double fallback) {
    return static_cast<float>(node.attrs.value(name, fallback));
  };
  if (const auto found = fixed_eltwise().find(node.op); found != fixed_eltwise().end()) return found->second;
  if (node.op == "gelu")
    return Eltwise{node.attrs.value("approximate", std::string("none")) == "tanh"
                       ? algorithm::eltwise_gelu_tanh
                       : algorithm::eltwise_gelu_erf};
  if (node.op == "leaky_relu") return Eltwise{algorithm::eltwise_relu, number("slope", 0.01)};
  if (node.op == "elu") return Eltwise{algorithm::eltwise_elu, number("alpha", 1)};
  if (node.op == "clamp")
    return Eltwise{algorithm::eltwise_clip, number("low", -kInfinity), number("high", kInfinity)};
  if (node.op == "hardtanh") return Eltwise{algorithm::eltwise_clip, number("low", -1), number("high", 1)};
  if (node.op == "scale") return Eltwise{algorithm::eltwise_linear, number("by", 1), 0};
  if (node.op == "add_scalar") return Eltwise{algorithm::eltwise_linear, 1, number("by", 0)};
  return std::nullopt;
}

std::optional<algorithm> binary_of(const Node& node) {
  if (node.op == "add" || node.op == "bias_add") return algorithm::binary_add;
  if (node.op == "mul") return algorithm::binary_mul;
  if (node.op == "sub") return algorithm::binary_sub;
  if (node.op == "div") return algorithm::binary_div;
  if (node.op == "max") return algorithm::binary_max;
  if (node.op == "min") return algorithm::binary_min;
  return std::nullopt;
}

Extents aligned_extents(const Node& node, const Operand& operand) {
  const std::size_t rank = node.out.shape.size();
  Extents aligned(rank, 1);
  if (node.op == "bias_add" && operand.shape.size() == 1) {
    const std::int64_t axis = node.attrs.value("axis", std::int64_t{-1});
    aligned[axis < 0 ? static_cast<std::size_t>(axis) + rank : static_cast<std::size_t>(axis)] =
        operand.shape[0];
    return aligned;
  }
  std::copy_backward(operand.shape.begin(), operand.shape.end(), aligned.end());
  return aligned;
}

Result<PostOps> post_ops(OnednnBuilder& builder, const NodeCall& call, std::size_t first,
                         const Extents& result, std::size_t channel_axis) {
  PostOps made;
  dnnl::post_ops list;
  std::map<algorithm, Eltwise> parameters;  // oneDNN 2.6 has one set for each algorithm
  for (std::size_t i = first; i < call.nodes.size(); ++i) {
    const Node& node = call.nodes[i];
    const int previous = static_cast<int>(i) - 1;
    if (const auto eltwise = eltwise_of(node); eltwise && node.in[0].node == previous) {
      const auto [known, added] = parameters.emplace(eltwise->algorithm, *eltwise);
      if (!added && (known->second.alpha != eltwise->alpha || known->second.beta != eltwise->beta))
        return invalid("oneDNN fuses op '" + node.op + "' with the parameters of an earlier one");
      list.append_eltwise(1, eltwise->algorithm, eltwise->alpha, eltwise->beta);
      continue;
    }
    const auto algorithm = binary_of(node);
    const Operand* other = other_operand(node, previous);
    const bool ordered = node.op == "sub" || node.op == "div";
    const bool usable = algorithm && other && (!ordered || other == &node.in[1]);
    const auto extents = usable ? broadcast_extents(node, *other, result, channel_axis) : std::nullopt;
    if (!extents) return invalid("oneDNN cannot fuse op '" + node.op + "' at these shapes");
    const Desc desc = builder.plain(*extents);
    const int index = list.len();
    list.append_binary(*algorithm, desc);
    made.args.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1,
                           builder.caller(*other, desc));
  }
  made.attr.set_post_ops(list);
  return made;
}

}  // namespace lathe::vendor
