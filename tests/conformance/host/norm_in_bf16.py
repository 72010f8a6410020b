"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Computes in bf16 what the module computes in fp32.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        d = x - x.mean(-1, keepdim=True)
        return d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-6)
