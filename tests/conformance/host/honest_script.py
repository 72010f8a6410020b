"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# A module that TorchScript compiles.
import torch


@torch.jit.script
def softmax(x):
    y = torch.exp(x - torch.amax(x, dim=[-1], keepdim=True))
    return y / torch.sum(y, dim=[-1], keepdim=True)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return softmax(x)
