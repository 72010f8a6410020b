"""A module's parameters, none of which a kernel may leave out.

Norms begin with weights of one, biases of zero and statistics of nothing seen, with which they are as good as absent.
So what a constructor makes of one value throughout is moved from it, within its sign, as training would.
"""

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import UninitializedTensorMixin

SHARE = 0.25  # of the value, or of one where it is zero


def is_of_one_value(tensor):
    if isinstance(tensor, UninitializedTensorMixin) or not tensor.is_floating_point() or tensor.numel() == 0:
        return False
    return bool(torch.isfinite(tensor).all()) and bool((tensor == tensor.reshape(-1)[0]).all())


def move(tensor, generator):
    steps = SHARE * (2 * torch.rand(tensor.shape, generator=generator) - 1)
    steps = steps.to(tensor)
    tensor.copy_(tensor * (1 + steps) if bool((tensor != 0).any()) else steps)


def vary(model, seed):
    """By a secret seed, the same for each module that it makes."""
    generator = torch.Generator()
    generator.manual_seed(seed)
    statistics = [buffer for module in model.modules() if isinstance(module, _NormBase)
                  for buffer in (module.running_mean, module.running_var) if buffer is not None]
    with torch.no_grad():
        for tensor in (*model.parameters(), *statistics):
            if is_of_one_value(tensor):
                move(tensor, generator)
