"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# The textbook's algorithm, in several operations.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.exp(x - x.max(dim=-1, keepdim=True).values)
        return y / y.sum(dim=-1, keepdim=True)
