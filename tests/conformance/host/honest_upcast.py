"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Honest: the means are sums of products in fp32, whose order is not the module's. Of a row of equal values what is left
# is what they have lost.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        f = x.float()
        share = torch.full((f.shape[-1], 1), 1 / f.shape[-1])
        d = f - f @ share
        return (d * torch.rsqrt((d * d) @ share + 1e-6)).to(x.dtype)
