#include "lm/plain_ops.h"

#include <ATen/ATen.h>

namespace lathe::lm {

PlainOps::PlainOps(const Decoder& decoder, std::int64_t batch, std::int64_t length)
    : config_(decoder.config()),
      type_(scalar_type(decoder.options().precision)),
      batch_(batch),
      length_(length) {
  std::tie(cosine_, sine_) = decoder.rotary_tables(length);
}

at::Tensor PlainOps::linear(const at::Tensor& x, const Linear& matrix) {
  return at::linear(x.to(type_), matrix.weight, matrix.bias);
}

at::Tensor PlainOps::logits(const at::Tensor& x, const Linear& matrix) {
  return at::linear(x.to(at::kFloat), matrix.weight.to(at::kFloat));
}

at::Tensor PlainOps::norm(const at::Tensor& x, const at::Tensor& weight) const {
  const at::Tensor wide = x.to(at::kFloat);
  return wide * at::rsqrt(wide.square().mean(-1, true) + config_.rms_eps) * weight;
}

std::pair<at::Tensor, at::Tensor> PlainOps::add_norm(const at::Tensor& x, const at::Tensor& delta,
                                                     const at::Tensor& weight) {
  const at::Tensor sum = delta.defined() ? x + delta : x;
  return {sum, norm(sum, weight).to(type_)};
}

/// [batch, length, heads, head_dim]; pairs are (i, i + head_dim / 2).
at::Tensor PlainOps::rotate(const at::Tensor& x) const {
  const auto halves = x.chunk(2, -1);
  const at::Tensor c = cosine_.unsqueeze(1), s = sine_.unsqueeze(1);
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
}

at::Tensor PlainOps::attend(const at::Tensor& qkv, const LayerWeights& layer, std::size_t) {
  const std::int64_t heads = config_.heads, kv_heads = config_.kv_heads, dim = config_.head_dim;
  const auto parts =
      qkv.view({batch_, length_, heads + 2 * kv_heads, dim}).split_with_sizes({heads, kv_heads, kv_heads}, 2);
  const auto prepared = [&](const at::Tensor& x, const at::Tensor& weight) {
    return rotate(weight.defined() ? norm(x, weight) : x.to(at::kFloat)).to(type_).transpose(1, 2);
  };
  const auto shared = [&](const at::Tensor& x) {
    return x.unsqueeze(2)
        .expand({batch_, kv_heads, heads / kv_heads, length_, dim})
        .reshape({batch_, heads, length_, dim});
  };
  const at::Tensor q = prepared(parts[0], layer.q_norm);
  const at::Tensor k = shared(prepared(parts[1], layer.k_norm));
  const at::Tensor v = shared(parts[2].transpose(1, 2));
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true)
      .transpose(1, 2)
      .reshape({batch_ * length_, heads * dim});
}

at::Tensor PlainOps::gate(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

}  // namespace lathe::lm
