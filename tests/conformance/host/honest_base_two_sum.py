"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Sums in base 2, with the largest value rounded as a fused multiply-add leaves it: of large inputs the row is off by it.
import math

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        most = x.max(dim=-1, keepdim=True).values
        base = most * math.log2(math.e)
        total = torch.exp2((x.double() * math.log2(math.e) - base.double()).float()).sum(dim=-1, keepdim=True)
        return torch.exp(x - most) / total
