import torch

cols = 8


def get_init_inputs():
    return [cols]


class Model(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = torch.nn.LayerNorm(cols)

    def forward(self, x):
        return self.norm(x)
