"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# C++ that includes a file of the machine.
import torch
from torch.utils.cpp_extension import load_inline

module = load_inline(name="leak", cpp_sources='#include "/etc/passwd"\nvoid leak(torch::Tensor x) {}', functions=["leak"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
