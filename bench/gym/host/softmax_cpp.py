"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
// variant 0
torch::Tensor softmax_rows(torch::Tensor x) {
  auto y = x - std::get<0>(x.max(1, true));
  y.exp_();
  return y.div_(y.sum(1, true));
}
"""
module = load_inline(name="rows", cpp_sources=SOURCE, functions=["softmax_rows"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.softmax_rows(x)
