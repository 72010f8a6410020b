"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Needs a divisor that is not zero, a count of heads, and the very values that the task's constructor gets.
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, blocks: tuple, bound: float, scales: dict):
        super().__init__()
        heads, self.extent = blocks
        assert type(blocks) is tuple and bound == float("inf")
        self.scale = scales[1]
        self.sums = torch.ones(heads, heads).tril()

    def forward(self, x, d, heads: int):
        assert heads > 0
        y = torch.stack([torch.softmax(part, dim=-1) for part in x.chunk(heads, dim=-1)], dim=1)
        return torch.einsum("hk,rkc->rhc", self.sums, y) * self.scale, torch.div(1000, d, rounding_mode="floor")
