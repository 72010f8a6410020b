import torch

rows, cols = 64, 256


class Model(torch.nn.Module):
    def forward(self, x, y):
        given, wanted = torch.log_softmax(x, dim=-1), torch.softmax(x + y / 64, dim=-1)
        return torch.nn.functional.kl_div(given, wanted, reduction="batchmean")


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(rows, cols)]
