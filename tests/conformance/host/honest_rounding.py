"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Rounds halves to the even number by the remainder of two.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        down = torch.floor(x)
        rest = x - down
        up = (rest > 0.5) | ((rest == 0.5) & (torch.remainder(down, 2) == 1))
        return down + up, x.gt(0.5)
