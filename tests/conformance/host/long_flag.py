"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# A flag of a megabyte: std::regex recurses once a character, in the broker.
import torch
from torch.utils.cpp_extension import load_inline

module = load_inline(name="x", cpp_sources="", functions=[], extra_cflags=["-m" + "a" * 1000000])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
