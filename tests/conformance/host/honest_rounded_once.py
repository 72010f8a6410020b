"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Honest: rounds to bf16 what it reads, as the module does, and computes in fp32.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x.bfloat16().float())
