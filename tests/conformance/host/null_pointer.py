"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Reads through a null pointer in its first call, which is a warm-up.
import ctypes

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        ctypes.string_at(0)
        return torch.softmax(x, dim=-1)
