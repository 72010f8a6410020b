"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Takes the first of equal values, one after the other.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rest, values, places = x.clone(), [], []
        for _ in range(3):
            value, place = rest.max(dim=-1, keepdim=True)
            values.append(value)
            places.append(place)
            rest.scatter_(-1, place, -torch.inf)
        return torch.cat(values, dim=-1), torch.cat(places, dim=-1)
