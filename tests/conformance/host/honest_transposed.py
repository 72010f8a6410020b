"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Returns a view that is not contiguous.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x.t().contiguous(), dim=0).t()
