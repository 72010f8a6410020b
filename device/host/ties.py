"""Which of equal values a module's topk() or sort() takes first: PyTorch leaves that open, so each order is right.

Modules are evaluated with the first ones first, and with the last ones, where that may make a difference.
"""

import torch

from modes import Mode

NAMES = ("aten::topk", "aten::sort")


def leaves_open(function, args, kwargs):
    """A stable sort() does not."""
    name = function._schema.name
    return name in NAMES and not kwargs.get("stable") and not (name == "aten::sort" and "stable" in
                                                              function._overloadname)


class Order(Mode):
    """Of equal values the last ones come first, or the first ones."""

    def __init__(self, last):
        super().__init__()
        self.last = last

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not leaves_open(function, args, kwargs):
            return function(*args, **kwargs)
        given = {argument.name: value for argument, value in zip(function._schema.arguments, args)}
        given.update(kwargs)
        tensor, dim = given["self"], given.get("dim", -1)
        if tensor.dim() == 0:
            return function(*args, **kwargs)
        descending = given.get("largest", True) if "k" in given else given.get("descending", False)
        extent = tensor.shape[dim]
        source = tensor.flip(dim) if self.last else tensor
        values, places = torch.sort(source, dim=dim, descending=descending, stable=True)
        if "k" in given:
            values, places = values.narrow(dim, 0, given["k"]), places.narrow(dim, 0, given["k"])
        return values.contiguous(), (extent - 1 - places if self.last else places).contiguous()
