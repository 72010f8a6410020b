"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Returns a view that claims far more elements than it has memory.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros(1).expand(1 << 20, 1 << 20)
