"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# variant 0
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = torch.nn.LayerNorm(cols)

    def forward(self, x):
        return self.norm(x)
