#include "train/packed_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lathe::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

class PackedAttention : public torch::autograd::Function<PackedAttention> {
 public:
  static Variable forward(AutogradContext* context, const TokenKernels* kernels, const Variable& qkv,
                          std::int64_t kv_heads, const PackedLayout* layout) {
    const std::int64_t heads = qkv.size(1) - 2 * kv_heads, turned_heads = heads + kv_heads;
    const at::Tensor turned = at::empty({qkv.size(0), turned_heads, qkv.size(2)}, qkv.options());
    kernels->rotate(qkv.narrow(1, 0, turned_heads), layout->cosine, layout->sine, /*back=*/false, turned);
    const at::Tensor q = turned.narrow(1, 0, heads), k = turned.narrow(1, heads, kv_heads);
    const at::Tensor v = qkv.narrow(1, turned_heads, kv_heads);
    const auto [seen, log_masses, random, unused, mask] = at::_flash_attention_forward(
        q, k, v, layout->device_bounds, layout->device_bounds, layout->longest, layout->longest, 0.0,
        /*is_causal=*/true, /*return_debug_mask=*/false);
    context->save_for_backward(
        {q, k, v, seen, log_masses, random, unused, layout->device_bounds, layout->cosine, layout->sine});
    context->saved_data["kernels"] = reinterpret_cast<std::int64_t>(kernels);
    context->saved_data["longest"] = static_cast<std::int64_t>(layout->longest);
    return seen;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto& kernels = *reinterpret_cast<const TokenKernels*>(context->saved_data["kernels"].toInt());
    const std::int64_t longest = context->saved_data["longest"].toInt();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const auto [of_q, of_k, of_v] = at::_flash_attention_backward(
        grads[0].contiguous(), q, k, v, saved[3], saved[4], saved[7], saved[7], longest, longest, 0.0,
        /*is_causal=*/true, saved[5], saved[6]);
    const std::int64_t heads = q.size(1), kv_heads = k.size(1);
    const at::Tensor grad = at::empty({q.size(0), heads + 2 * kv_heads, q.size(2)}, q.options());
    kernels.rotate(of_q, saved[8], saved[9], /*back=*/true, grad.narrow(1, 0, heads));
    kernels.rotate(of_k, saved[8], saved[9], /*back=*/true, grad.narrow(1, heads, kv_heads));
    grad.narrow(1, heads + kv_heads, kv_heads).copy_(of_v);
    return {{}, grad, {}, {}};
  }
};

}  // namespace

at::Tensor packed_attention(const TokenKernels& kernels, const at::Tensor& qkv, std::int64_t kv_heads,
                            const PackedLayout& layout) {
  return PackedAttention::apply(&kernels, qkv, kv_heads, &layout);
}

}  // namespace lathe::train
