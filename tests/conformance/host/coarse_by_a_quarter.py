"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# What a module's own roundings allow is no quarter.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.25 * x)
