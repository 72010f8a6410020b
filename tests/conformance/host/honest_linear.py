"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# The same parameters, another formula.
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, features, units):
        super().__init__()
        self.layer = torch.nn.Linear(features, units)

    def forward(self, x):
        return torch.clamp_min(torch.addmm(self.layer.bias, x, self.layer.weight.t()), 0)
