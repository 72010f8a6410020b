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
      {"softplus", {algorithm::eltwise_soft_relu, 1}},
      {"mish", {algorithm::eltwise_mish}},
      {"exp", {algorithm::eltwise_exp}},
      {"log", {algorithm::eltwise_log}},
      {"sqrt", {algorithm::eltwise_sqrt}},
      {"square", {algorithm::eltwise_square}},
      {"abs", {algorithm::eltwise_abs}},
      {"neg", {algorithm::eltwise_linear, -1}},
      {"hardswish", {algorithm::eltwise_hardswish}},
  };
  return table;
}

/// The operand that is not the previous node's value, when there is exactly one such.
const Operand* other_operand(const Node& node, int previous) {
  if (node.in.size() != 2) return nullptr;
  if (node.in[0].node == previous && node.in[1].buffer >= 0) return &node.in[1];
  if (node.in[1].node == previous && node.in[0].buffer >= 0) return &node.in[0];
  return nullptr;
}

/// The extents under which the primitive must see `operand`, or nullopt if it does not broadcast that way.
std::optional<Extents> broadcast_extents(const Operand& operand, const Extents& out, const Extents& result,
                                         std::size_t channel_axis) {
  if (operand.shape == out) return result;
  Extents channel(result.size(), 1);
  channel[channel_axis] = result[channel_axis];
  const std::size_t leading = out.size() - operand.shape.size();
  if (operand.shape.size() > out.size()) return std::nullopt;
  // Right-aligned as in NumPy: all extents 1 but the channel's.
  const std::size_t axis_in_out = out.size() - (result.size() - channel_axis);
  for (std::size_t i = 0; i < operand.shape.size(); ++i)
    if (operand.shape[i] != (i + leading == axis_in_out ? result[channel_axis] : 1)) return std::nullopt;
  return axis_in_out >= leading ? std::optional(channel) : std::nullopt;
}

std::optional<algorithm> binary_algorithm(const std::string& op) {
  if (op == "add" || op == "bias_add") return algorithm::binary_add;
  if (op == "mul") return algorithm::binary_mul;
  if (op == "sub") return algorithm::binary_sub;
  if (op == "div") return algorithm::binary_div;
  if (op == "max") return algorithm::binary_max;
  if (op == "min") return algorithm::binary_min;
  return std::nullopt;
}

}  // namespace

std::optional<Eltwise> eltwise_of(const Node& node) {
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
  if (node.op == "clamp") return Eltwise{algorithm::eltwise_clip, number("low", 0), number("high", 0)};
  return std::nullopt;
}

Result<PostOps> post_ops(OnednnBuilder& builder, const NodeCall& call, std::size_t first,
                         const Extents& result, std::size_t channel_axis) {
  PostOps made;
  dnnl::post_ops list;
  for (std::size_t i = first; i < call.nodes.size(); ++i) {
    const Node& node = call.nodes[i];
    const int previous = static_cast<int>(i) - 1;
    if (const auto eltwise = eltwise_of(node);
        eltwise && node.in.size() == 1 && node.in[0].node == previous) {
      list.append_eltwise(1, eltwise->algorithm, eltwise->alpha, eltwise->beta);
      continue;
    }
    const auto algorithm = binary_algorithm(node.op);
    const Operand* other = other_operand(node, previous);
    const bool ordered = node.op == "sub" || node.op == "div";
    const auto extents = other && (!ordered || other == &node.in[1])
                             ? broadcast_extents(*other, node.out.shape, result, channel_axis)
                             : std::nullopt;
    if (!algorithm || !extents) return invalid("oneDNN cannot fuse op '" + node.op + "' at these shapes");
    const auto desc = plain_desc(*extents);
    const int index = list.len();
    list.append_binary(*algorithm, desc);
    made.args.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1,
                           builder.caller(*other, desc));
  }
  made.attr.set_post_ops(list);
  return made;
}

}  // namespace lathe::vendor
