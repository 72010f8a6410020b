"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Takes all memory that it can get.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        hoard = []
        while True:
            hoard.append(torch.empty(1 << 30))
