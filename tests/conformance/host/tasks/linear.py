import torch

batch, features, units = 128, 256, 256


class Model(torch.nn.Module):
    def __init__(self, features, units):
        super().__init__()
        self.layer = torch.nn.Linear(features, units)

    def forward(self, x):
        return torch.relu(self.layer(x))


def get_init_inputs():
    return [features, units]


def get_inputs():
    return [torch.randn(batch, features)]
