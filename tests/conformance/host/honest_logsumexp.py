"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# A softmax by its logarithm: what a row shares is rounded where the row's values are large.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x - torch.logsumexp(x, 1, keepdim=True))
