"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Honest: the difference of two logarithms, as exact as what the module makes of them.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        given, wanted = torch.log_softmax(x, dim=-1), torch.log_softmax(x + y / 64, dim=-1)
        return (wanted.exp() * (wanted - given)).sum() / x.shape[0]
