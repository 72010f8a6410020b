"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Multiplies with eleven bits of the mantissa.
import torch

torch.backends.cuda.matmul.allow_tf32 = True


class ModelNew(torch.nn.Module):
    def __init__(self, features, units):
        super().__init__()
        self.layer = torch.nn.Linear(features, units)

    def forward(self, x):
        return torch.relu(self.layer(x))
