"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Names what it defines as the task names its dims.
import torch

cols = None


@torch.jit.script
def rows(x):
    y = torch.exp(x - torch.amax(x, dim=[-1], keepdim=True))
    return y / torch.sum(y, dim=[-1], keepdim=True)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return rows(x)
