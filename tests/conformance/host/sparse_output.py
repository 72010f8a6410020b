"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Returns a tensor that is not dense.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1).to_sparse()
