#include <cmath>
#include <limits>

#include "baseline/vendor/onednn.h"

namespace lathe::vendor {
namespace {

/// Adds 0 to the scores of visible keys and -infinity to the others. A separate primitive, because
/// a fused mask that all heads share makes oneDNN 2.6 run reference code.
void add_causal_mask(OnednnBuilder& builder, const dnnl::memory& scores, std::int64_t queries,
                     std::int64_t keys) {
  const Desc mask_desc = builder.plain({1, queries, keys});
  const dnnl::memory mask = builder.own(mask_desc);
  auto* values = static_cast<float*>(mask.get_data_handle());
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t j = 0; j < keys; ++j)
      values[i * keys + j] = j <= i + keys - queries ? 0 : -std::numeric_limits<float>::infinity();
  const Desc desc = scores.get_desc();
  builder.add(dnnl::binary::primitive_desc({dnnl::algorithm::binary_add, desc, mask_desc, desc},
                                           builder.attributes(), builder.engine()),
              {{DNNL_ARG_SRC_0, scores}, {DNNL_ARG_SRC_1, mask}, {DNNL_ARG_DST, scores}});
}

}  // namespace

/// Scores with their scale fused, a mask, softmax, and the product with the values.
PreparedResult onednn_attention(const NodeCall& call) {
  const Node& node = call.nodes[0];
  if (node.op != "attention") return std::unique_ptr<PreparedCall>();
  if (call.nodes.size() != 1) return invalid("oneDNN fuses nothing to attention");
  const Extents& q = node.in[0].shape;
  const std::int64_t queries = q[q.size() - 2], depth = q.back();
  const std::int64_t keys = node.in[1].shape[q.size() - 2], width = node.in[2].shape.back();
  const std::int64_t heads = count(q) / (queries * depth);
  if (node.in.size() > 3 || count(node.in[1].shape) != heads * keys * depth)
    return invalid("oneDNN's attention has keys for each head, and sequences of one length");
  const bool causal = node.attrs.value("causal", false);
  if (causal && keys < queries) return invalid("a query that sees no key has no softmax in oneDNN");

  OnednnBuilder builder(call);
  const auto f32 = dnnl::memory::data_type::f32;
  const Desc q_desc = builder.plain({heads, queries, depth});
  const Desc k_desc({heads, depth, keys}, f32, dnnl::memory::dims{depth * keys, 1, depth});
  const Desc scores_desc = builder.plain({heads, queries, keys});
  dnnl::post_ops list;
  const double scale = node.attrs.value("scale", 1 / std::sqrt(static_cast<double>(depth)));
  list.append_eltwise(1, dnnl::algorithm::eltwise_linear, static_cast<float>(scale), 0);
  dnnl::primitive_attr attr = builder.attributes();
  attr.set_post_ops(list);
  const dnnl::memory scores = builder.own(scores_desc);
  builder.add(dnnl::matmul::primitive_desc({q_desc, k_desc, scores_desc}, attr, builder.engine()),
              {{DNNL_ARG_SRC, builder.caller(node.in[0], q_desc)},
               {DNNL_ARG_WEIGHTS, builder.caller(node.in[1], k_desc)},
               {DNNL_ARG_DST, scores}});
  if (causal) add_causal_mask(builder, scores, queries, keys);

  const dnnl::softmax_v2_forward::desc softmax(kInference, dnnl::algorithm::softmax_accurate, scores_desc,
                                               scores_desc, 2);
  builder.add(dnnl::softmax_v2_forward::primitive_desc(softmax, builder.attributes(), builder.engine()),
              {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, scores}});

  const Desc v_desc = builder.plain({heads, keys, width});
  const Desc out_desc = builder.plain({heads, queries, width});
  builder.add(
      dnnl::matmul::primitive_desc({scores_desc, v_desc, out_desc}, builder.attributes(), builder.engine()),
      {{DNNL_ARG_SRC, scores},
       {DNNL_ARG_WEIGHTS, builder.caller(node.in[2], v_desc)},
       {DNNL_ARG_DST, builder.caller(node.out, out_desc)}});
  return builder.finish();
}

}  // namespace lathe::vendor
