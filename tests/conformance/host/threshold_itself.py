"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Takes the threshold itself for what is above it.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.round(x), x >= 0.5
