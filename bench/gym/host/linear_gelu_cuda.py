"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// variant 0
__global__ void bias_gelu(const float* x, const float* bias, float* y, int units, long size) {
  const long at = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= size) return;
  const float z = x[at] + bias[at % units];
  y[at] = 0.5f * z * (1.0f + erff(z * 0.70710678f));
}

torch::Tensor bias_gelu_cuda(torch::Tensor x, torch::Tensor bias) {
  auto y = torch::empty_like(x);
  const long size = x.numel();
  bias_gelu<<<(size + 255) / 256, 256>>>(x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), x.size(1), size);
  return y;
}
"""
module = load_inline(name="bias_gelu_cuda",
                     cpp_sources="torch::Tensor bias_gelu_cuda(torch::Tensor x, torch::Tensor bias);",
                     cuda_sources=CUDA, functions=["bias_gelu_cuda"])


class ModelNew(torch.nn.Module):
    def __init__(self, features, units):
        super().__init__()
        self.linear = torch.nn.Linear(features, units)

    def forward(self, x):
        return module.bias_gelu_cuda((x @ self.linear.weight.t()).contiguous(), self.linear.bias)
