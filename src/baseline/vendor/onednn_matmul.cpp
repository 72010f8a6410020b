#include "baseline/vendor/contraction.h"
#include "baseline/vendor/onednn.h"

namespace lathe::vendor {
namespace {

/// Extents and strides of (batch, rows, columns); rows and columns may be stored transposed.
Desc matrix_desc(Type type, const Contraction& c, std::int64_t rows, std::int64_t columns, bool transposed,
                 std::int64_t batch_stride) {
  const std::int64_t row_stride = transposed ? 1 : columns;
  const std::int64_t column_stride = transposed ? rows : 1;
  if (c.batch == 1) return {{rows, columns}, type, dnnl::memory::dims{row_stride, column_stride}};
  const std::int64_t batch = batch_stride == 0 ? 1 : c.batch;
  const std::int64_t stride = batch_stride == 0 ? rows * columns : batch_stride;
  return {{batch, rows, columns}, type, dnnl::memory::dims{stride, row_stride, column_stride}};
}

}  // namespace

Result<std::unique_ptr<PreparedCall>> onednn_matmul(const NodeCall& call) {
  const Node& node = call.nodes[0];
  const auto c = contraction_of(node);
  if (!c) return std::unique_ptr<PreparedCall>();
  OnednnBuilder builder(call);
  const auto a = matrix_desc(type_of(call), *c, c->m, c->k, c->transpose_a, c->a_stride);
  const auto b = matrix_desc(type_of(call), *c, c->k, c->n, c->transpose_b, c->b_stride);
  const auto out = matrix_desc(type_of(call), *c, c->m, c->n, false, c->m * c->n);
  const Extents result = out.dims();
  std::size_t next = 1;
  const Operand* bias = c->bias >= 0 ? &node.in[static_cast<std::size_t>(c->bias)] : nullptr;
  if (!bias && call.nodes.size() > 1) {
    bias = row_bias(call.nodes[1], 0, c->n);
    next += bias != nullptr;
  }
  LATHE_TRY(PostOps post, post_ops(builder, call, next, result, result.size() - 1));
  auto args = std::move(post.args);
  args.emplace_back(DNNL_ARG_SRC, builder.caller(node.in[0], a));
  args.emplace_back(DNNL_ARG_WEIGHTS, builder.caller(node.in[1], b));
  args.emplace_back(DNNL_ARG_DST, builder.caller(call.nodes.back().out, out));
  if (bias) {
    Extents extents(result.size(), 1);
    extents.back() = c->n;
    const auto desc = builder.plain(extents);
    args.emplace_back(DNNL_ARG_BIAS, builder.caller(*bias, desc));
    builder.add(dnnl::matmul::primitive_desc({a, b, desc, out}, post.attr, builder.engine()),
                std::move(args));
  } else {
    builder.add(dnnl::matmul::primitive_desc({a, b, out}, post.attr, builder.engine()), std::move(args));
  }
  return builder.finish();
}

}  // namespace lathe::vendor
