"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Has parameters of its own that never take the reference's.
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, features, units):
        super().__init__()
        self.layer = torch.nn.Linear(features, units)

    def load_state_dict(self, state, strict=True):
        return None

    def forward(self, x):
        return torch.relu(self.layer(x))
