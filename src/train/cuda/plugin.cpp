// The GPU's part of training, beside lathe-torch-train: TokenKernels for bf16 on CUDA.

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>

#include "train/cuda/kernels.h"
#include "train/token_kernels.h"

namespace lathe::train {
namespace {

CUstream_st* stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

const cuda::Bf16* bf16(const at::Tensor& tensor) {
  return static_cast<const cuda::Bf16*>(tensor.const_data_ptr());
}
cuda::Bf16* bf16_out(const at::Tensor& tensor) { return static_cast<cuda::Bf16*>(tensor.mutable_data_ptr()); }

bool is_bf16(const at::Tensor& tensor) { return tensor.scalar_type() == at::kBFloat16; }

at::Tensor cuda_gate(const at::Tensor& gate_up) {
  const std::int64_t count = gate_up.size(1) / 2;
  if (!is_bf16(gate_up) || !gate_up.is_contiguous() || !cuda::fits_gate(count))
    return aten_kernels().gate(gate_up);
  const at::Tensor to = at::empty({gate_up.size(0), count}, gate_up.options());
  cuda::gate(bf16(gate_up), bf16_out(to), to.size(0), static_cast<int>(count), stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return to;
}

at::Tensor cuda_gate_backward(const at::Tensor& grad, const at::Tensor& gate_up) {
  if (!is_bf16(gate_up) || !gate_up.is_contiguous() || !cuda::fits_gate(grad.size(1)))
    return aten_kernels().gate_backward(grad, gate_up);
  const at::Tensor to = at::empty_like(gate_up);
  cuda::gate_backward(bf16(grad), bf16(gate_up), bf16_out(to), grad.size(0), static_cast<int>(grad.size(1)),
                      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return to;
}

void cuda_rotate(const at::Tensor& from, const at::Tensor& cosine, const at::Tensor& sine, bool back,
                 const at::Tensor& to) {
  const std::int64_t dim = from.size(2);
  const auto heads_are_together = [&](const at::Tensor& x) {
    return is_bf16(x) && x.stride(2) == 1 && x.stride(1) == dim && x.stride(0) % 2 == 0;
  };
  if (!heads_are_together(from) || !heads_are_together(to) || dim % 4 != 0)
    return aten_kernels().rotate(from, cosine, sine, back, to);
  cuda::rotate({.from = bf16(from),
                .to = bf16_out(to),
                .from_stride = from.stride(0),
                .to_stride = to.stride(0),
                .cosine = cosine.const_data_ptr<float>(),
                .sine = sine.const_data_ptr<float>(),
                .rows = from.size(0),
                .heads = static_cast<int>(from.size(1)),
                .dim = static_cast<int>(dim),
                .sign = back ? -1.0F : 1.0F},
               stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

TokenKernels::Norm cuda_add_norm(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight,
                                 double eps, at::ScalarType type) {
  const bool fits = x.dim() == 2 && x.scalar_type() == at::kFloat && x.is_contiguous() &&
                    cuda::fits_norm(x.size(1)) && type == at::kBFloat16 &&
                    (!delta.defined() || (is_bf16(delta) && delta.is_contiguous()));
  if (!fits) return aten_kernels().add_norm(x, delta, weight, eps, type);
  TokenKernels::Norm made{delta.defined() ? at::empty_like(x) : x,
                          at::empty(x.sizes(), x.options().dtype(type)), at::empty({x.size(0)}, x.options())};
  cuda::add_norm({.x = x.const_data_ptr<float>(),
                  .delta = delta.defined() ? bf16(delta) : nullptr,
                  .weight = weight.const_data_ptr<float>(),
                  .sum = delta.defined() ? made.sum.mutable_data_ptr<float>() : nullptr,
                  .normed = bf16_out(made.normed),
                  .inverse_rms = made.inverse_rms.mutable_data_ptr<float>(),
                  .rows = x.size(0),
                  .count = static_cast<int>(x.size(1)),
                  .eps = static_cast<float>(eps)},
                 stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return made;
}

TokenKernels::NormGrads cuda_add_norm_backward(const at::Tensor& grad_sum, const at::Tensor& grad_normed,
                                               const at::Tensor& weight, const TokenKernels::Norm& forward,
                                               at::ScalarType delta_type) {
  const at::Tensor& sum = forward.sum;
  const bool fits = sum.dim() == 2 && sum.is_contiguous() && sum.scalar_type() == at::kFloat &&
                    is_bf16(grad_normed) && cuda::fits_norm(sum.size(1)) &&
                    (!grad_sum.defined() || grad_sum.scalar_type() == at::kFloat) &&
                    (delta_type == at::kBFloat16 || delta_type == at::ScalarType::Undefined);
  if (!fits) return aten_kernels().add_norm_backward(grad_sum, grad_normed, weight, forward, delta_type);
  const at::Tensor residual = grad_sum.defined() ? grad_sum.contiguous() : grad_sum;
  TokenKernels::NormGrads made{at::empty_like(sum), {}, {}};
  if (delta_type != at::ScalarType::Undefined)
    made.delta = at::empty(sum.sizes(), sum.options().dtype(delta_type));
  const at::Tensor partials = at::empty({cuda::norm_partials(), sum.size(1)}, sum.options());
  cuda::add_norm_backward({.grad_sum = residual.defined() ? residual.const_data_ptr<float>() : nullptr,
                           .grad_normed = bf16(grad_normed),
                           .sum = sum.const_data_ptr<float>(),
                           .inverse_rms = forward.inverse_rms.const_data_ptr<float>(),
                           .weight = weight.const_data_ptr<float>(),
                           .grad_x = made.x.mutable_data_ptr<float>(),
                           .grad_delta = made.delta.defined() ? bf16_out(made.delta) : nullptr,
                           .weight_partials = partials.mutable_data_ptr<float>(),
                           .rows = sum.size(0),
                           .count = static_cast<int>(sum.size(1))},
                          stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  made.weight = partials.sum(0);
  return made;
}

std::pair<at::Tensor, at::Tensor> cuda_log_probs(const at::Tensor& logits, const at::Tensor& targets) {
  if (!is_bf16(logits) || !logits.is_contiguous() || !cuda::fits_logits(logits.size(1)))
    return aten_kernels().log_probs(logits, targets);
  const at::Tensor log_probs = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  const at::Tensor log_masses = at::empty_like(log_probs);
  cuda::log_probs(bf16(logits), targets.const_data_ptr<std::int64_t>(), log_probs.mutable_data_ptr<float>(),
                  log_masses.mutable_data_ptr<float>(), logits.size(0), static_cast<int>(logits.size(1)),
                  stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {log_probs, log_masses};
}

at::Tensor cuda_log_probs_backward(const at::Tensor& logits, const at::Tensor& targets,
                                   const at::Tensor& log_masses, const at::Tensor& grads) {
  if (!is_bf16(logits) || !logits.is_contiguous() || !cuda::fits_logits(logits.size(1)))
    return aten_kernels().log_probs_backward(logits, targets, log_masses, grads);
  cuda::log_probs_backward(bf16_out(logits), targets.const_data_ptr<std::int64_t>(),
                           log_masses.const_data_ptr<float>(), grads.const_data_ptr<float>(), logits.size(0),
                           static_cast<int>(logits.size(1)), stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return logits;
}

}  // namespace
}  // namespace lathe::train

extern "C" __attribute__((visibility("default"))) const lathe::train::TokenKernels*
lathe_train_cuda_kernels() {
  using namespace lathe::train;
  static const TokenKernels kernels{
      cuda_gate,      cuda_gate_backward,     cuda_rotate, cuda_add_norm, cuda_add_norm_backward,
      cuda_log_probs, cuda_log_probs_backward};
  return &kernels;
}

/// False: it cannot be used.
extern "C" __attribute__((visibility("default"))) bool lathe_train_cuda_use(int index) {
  return c10::cuda::SetDevice(static_cast<c10::DeviceIndex>(index)) == cudaSuccess;
}

/// To 16 bytes. False: the driver has none.
extern "C" __attribute__((visibility("default"))) bool lathe_train_cuda_uuid(char* bytes) {
  const cudaDeviceProp* const properties = at::cuda::getCurrentDeviceProperties();
  if (!properties) return false;
  std::memcpy(bytes, properties->uuid.bytes, sizeof properties->uuid.bytes);
  return true;
}
