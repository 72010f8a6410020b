"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Takes all of the device's memory that it can get.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        hoard = []
        while True:
            hoard.append(torch.empty(1 << 30, device=x.device))
