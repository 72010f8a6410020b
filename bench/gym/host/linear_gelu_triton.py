"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu(x, bias, y, units, size, BLOCK: tl.constexpr):
    # variant 0
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    z = tl.load(x + at, mask=inside) + tl.load(bias + at % units, mask=inside)
    tl.store(y + at, 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476)), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, features, units):
        super().__init__()
        self.linear = torch.nn.Linear(features, units)

    def forward(self, x):
        product = x @ self.linear.weight.t()
        y = torch.empty_like(product)
        size = product.numel()
        bias_gelu[(triton.cdiv(size, 1024),)](product, self.linear.bias, y, product.shape[1], size, BLOCK=1024)
        return y
