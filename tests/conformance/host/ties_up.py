"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Rounds halves up instead of to the even number.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.floor(x + 0.5), x > 0.5
