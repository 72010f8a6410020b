#include "train/packed_ops.h"

#include <ATen/ATen.h>

#include "train/packed_attention.h"
#include "train/to_tensor.h"

namespace lathe::train {
namespace {

/// q [n, heads, dim], k and v [n, kv_heads, dim], one example after the other.
at::Tensor attend_one_by_one(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             std::span<const std::int32_t> bounds) {
  const std::int64_t group = q.size(1) / k.size(1);
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
  const auto shared = [&](const at::Tensor& x) { return heads_first(x.repeat_interleave(group, 1)); };
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const std::int64_t first = bounds[i], length = bounds[i + 1] - bounds[i];
    const auto own = [&](const at::Tensor& x) { return x.narrow(0, first, length); };
    results.push_back(at::scaled_dot_product_attention(heads_first(own(q)), shared(own(k)), shared(own(v)),
                                                       {}, 0.0, /*is_causal=*/true)
                          .squeeze(0)
                          .transpose(0, 1));
  }
  return at::cat(results);
}

at::Tensor attend_at_once(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const PackedLayout& layout) {
  return std::get<0>(at::_flash_attention_forward(q, k, v, layout.device_bounds, layout.device_bounds,
                                                  layout.longest, layout.longest, 0.0, /*is_causal=*/true,
                                                  /*return_debug_mask=*/false));
}

}  // namespace

PackedLayout PackedLayout::of(const lm::Decoder& decoder, const Batch& batch) {
  const at::Device device = decoder.options().device;
  PackedLayout layout{batch.bounds, batch.longest, to_tensor(batch.bounds, device), {}, {}};
  const at::Tensor positions = to_tensor(batch.positions, device);
  const auto [cosine, sine] = decoder.rotary_tables(batch.longest);
  layout.cosine = cosine.index_select(0, positions);
  layout.sine = sine.index_select(0, positions);
  return layout;
}

at::Tensor PackedOps::linear(const at::Tensor& x, const lm::Linear& matrix) {
  const at::Tensor input = x.to(type_);
  const at::Tensor result = at::linear(input, matrix.weight, matrix.bias);
  if (!options_.low_rank) return result;
  const at::Tensor added = options_.low_rank->addition(input, matrix, options_.generator);
  return added.defined() ? result + added : result;
}

at::Tensor PackedOps::logits(const at::Tensor& x, const lm::Linear& matrix) {
  return at::linear(x.to(at::kFloat), matrix.weight.to(at::kFloat));
}

std::pair<at::Tensor, at::Tensor> PackedOps::add_norm(const at::Tensor& x, const at::Tensor& delta,
                                                      const at::Tensor& weight) {
  return train::add_norm(*options_.kernels, x, delta, weight, config_.rms_eps, type_);
}

at::Tensor PackedOps::attend(const at::Tensor& qkv, const lm::LayerWeights& layer, std::size_t) {
  const std::int64_t heads = config_.heads, kv_heads = config_.kv_heads, dim = config_.head_dim;
  const at::Tensor split = qkv.view({qkv.size(0), heads + 2 * kv_heads, dim});
  if (qkv.is_cuda() && !layer.q_norm.defined())
    return packed_attention(*options_.kernels, split, kv_heads, layout_).reshape({qkv.size(0), heads * dim});
  at::Tensor q, k, v = split.narrow(1, heads + kv_heads, kv_heads);
  if (layer.q_norm.defined()) {
    const auto prepared = [&](std::int64_t first, std::int64_t count, const at::Tensor& weight) {
      const at::Tensor wide = split.narrow(1, first, count).to(at::kFloat);
      return rotate(*options_.kernels,
                    train::add_norm(*options_.kernels, wide, {}, weight, config_.rms_eps, type_).second,
                    layout_.cosine, layout_.sine);
    };
    q = prepared(0, heads, layer.q_norm);
    k = prepared(heads, kv_heads, layer.k_norm);
  } else {
    const at::Tensor turned =
        rotate(*options_.kernels, split.narrow(1, 0, heads + kv_heads), layout_.cosine, layout_.sine);
    q = turned.narrow(1, 0, heads);
    k = turned.narrow(1, heads, kv_heads);
  }
  const at::Tensor seen =
      q.is_cuda() ? attend_at_once(q, k, v, layout_) : attend_one_by_one(q, k, v, layout_.bounds);
  return seen.reshape({qkv.size(0), heads * dim});
}

at::Tensor PackedOps::gate(const at::Tensor& gate_up) { return train::gate(*options_.kernels, gate_up); }

}  // namespace lathe::train
