"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Scales to base 2 before it subtracts: of large inputs that loses more than subtracting first does.
import math

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        z = x * math.log2(math.e)
        y = torch.exp2(z - z.max(dim=-1, keepdim=True).values)
        return y / y.sum(dim=-1, keepdim=True)
