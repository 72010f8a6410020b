"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Honest: each step is rounded to bf16, as the module's own need not be.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        e = (x - x.amax(1, keepdim=True)).exp()
        return e / e.sum(1, keepdim=True)
