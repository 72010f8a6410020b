#include "baseline/vendor/contraction.h"

#include <algorithm>

namespace lathe::vendor {
namespace {

/// The product of all extents but the last two.
std::int64_t batch_of(const Extents& shape) {
  std::int64_t batch = 1;
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) batch *= shape[i];
  return batch;
}

bool same_batch(const Extents& a, const Extents& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
}

std::optional<Contraction> matmul(const Node& node) {
  const Extents& a = node.in[0].shape;
  const Extents& b = node.in[1].shape;
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  Contraction c;
  c.transpose_a = node.attrs.value("transpose_a", false);
  c.transpose_b = node.attrs.value("transpose_b", false);
  c.m = c.transpose_a ? a.back() : a[a.size() - 2];
  c.k = c.transpose_a ? a[a.size() - 2] : a.back();
  c.n = c.transpose_b ? b[b.size() - 2] : b.back();
  const std::int64_t a_batch = batch_of(a);
  const std::int64_t b_batch = batch_of(b);
  if (b_batch == 1 && !c.transpose_a) {
    c.m *= a_batch;
    return c;
  }
  if (a_batch != 1 && b_batch != 1 && !same_batch(a, b)) return std::nullopt;
  c.batch = std::max(a_batch, b_batch);
  c.a_stride = a_batch == 1 ? 0 : c.m * c.k;
  c.b_stride = b_batch == 1 ? 0 : c.k * c.n;
  return c;
}

std::optional<Contraction> linear(const Node& node) {
  Contraction c;
  const Extents& x = node.in[0].shape;
  c.k = x.back();
  c.m = count(x) / c.k;
  c.n = node.in[1].shape[0];
  c.transpose_b = true;
  if (node.in.size() > 2) c.bias = 2;
  return c;
}

}  // namespace

std::optional<Contraction> contraction_of(const Node& node) {
  if (node.op == "matmul") return matmul(node);
  if (node.op == "linear") return linear(node);
  return std::nullopt;
}

const Operand* row_bias(const Node& node, int previous, std::int64_t n) {
  if ((node.op != "bias_add" && node.op != "add") || node.in.size() != 2) return nullptr;
  const std::int64_t axis = node.attrs.value("axis", std::int64_t{-1});
  if (axis != -1 && axis + 1 != static_cast<std::int64_t>(node.out.shape.size())) return nullptr;
  for (std::size_t i = 0; i < 2; ++i)
    if (node.in[i].node == previous && node.in[1 - i].buffer >= 0 && node.in[1 - i].shape == Extents{n})
      return &node.in[1 - i];
  return nullptr;
}

}  // namespace lathe::vendor
