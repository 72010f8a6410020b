"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# Asks for its C++ in the first call, with names and options of newer versions.
import torch
from torch.utils.cpp_extension import CUDAExtension, load_inline  # noqa: F401

SOURCE = "torch::Tensor softmax_rows(torch::Tensor x) { return torch::softmax(x, -1); }"


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.module = None

    def forward(self, x):
        if self.module is None:
            self.module = load_inline("lazy", SOURCE, functions=["softmax_rows"], no_implicit_headers=False)
        return self.module.softmax_rows(x)
