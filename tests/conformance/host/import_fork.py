"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Makes a process while it is imported.
import os

import torch

if os.fork() == 0:
    os._exit(0)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
