"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Looks for the largest of rounded values.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        places = torch.topk(x.bfloat16().float(), 3, dim=-1)[1]
        return x.gather(-1, places), places
