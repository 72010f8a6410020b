"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Honest: more exact than the module, which rounds to bf16 three times.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x)
