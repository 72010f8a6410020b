"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
import torch
import triton
import triton.language as tl


@triton.jit
def norm_row(x, weight, bias, y, cols, eps, BLOCK: tl.constexpr):
    # variant 0
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    values = tl.load(x + row * cols + at, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / cols
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / cols + eps)
    w = tl.load(weight + at, mask=inside, other=0.0)
    b = tl.load(bias + at, mask=inside, other=0.0)
    tl.store(y + row * cols + at, centred * scale * w + b, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = torch.nn.LayerNorm(cols)

    def forward(self, x):
        y = torch.empty_like(x)
        rows, cols = x.shape
        norm_row[(rows,)](x, self.norm.weight, self.norm.bias, y, cols, self.norm.eps,
                          BLOCK=triton.next_power_of_2(cols))
        return y
