"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# A C++ kernel that is called and does nothing, and PyTorch does the work: allowed, and worth nothing.
import torch
from torch.utils.cpp_extension import load_inline

module = load_inline(name="decoy", cpp_sources="void decoy(torch::Tensor x) {}", functions=["decoy"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        module.decoy(x)
        return torch.softmax(x, dim=-1)
