"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# variant 0
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
