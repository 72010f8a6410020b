"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_row(x, y, cols, BLOCK: tl.constexpr):
    # variant 0
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
    raised = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * cols + at, raised / tl.sum(raised, axis=0), mask=at < cols)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax_row[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
