"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Honest: in fp64 values differ that the module's own precision takes for equal.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x.double(), dim=-1).argmax(-1)
