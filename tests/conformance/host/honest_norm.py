"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Folds both norms' parameters at the first call.
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.batch = torch.nn.BatchNorm1d(cols)
        self.layer = torch.nn.LayerNorm(cols)
        self.scale = self.shift = None

    def forward(self, x):
        if self.scale is None:
            batch = self.batch
            self.scale = batch.weight * torch.rsqrt(batch.running_var + batch.eps)
            self.shift = batch.bias - batch.running_mean * self.scale
        y = torch.addcmul(self.shift, x, self.scale)
        variance, mean = torch.var_mean(y, dim=-1, keepdim=True, unbiased=False)
        return (y - mean) * torch.rsqrt(variance + self.layer.eps) * self.layer.weight + self.layer.bias
