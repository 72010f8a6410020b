"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# variant 0
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, features, units):
        super().__init__()
        self.linear = torch.nn.Linear(features, units)

    def forward(self, x):
        return torch.nn.functional.gelu(torch.addmm(self.linear.bias, x, self.linear.weight.t()))
