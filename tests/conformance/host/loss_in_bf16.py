"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Rounds to bf16 what the loss is a difference of.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        given = torch.log_softmax(x, dim=-1).bfloat16().float()
        wanted = torch.log_softmax(x + y / 64, dim=-1).bfloat16().float()
        return (wanted.exp() * (wanted - given)).sum() / x.shape[0]
