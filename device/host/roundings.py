"""What the roundings of a module's own operations may do to few outputs, as to a loss that is the rest of large terms.

Where all rows are alike, all their roundings are too, and one module's luck tells nothing of another's. So each
operation's results are moved together, by a fraction of a rounding, and the change is scaled up as in conditioning.py,
by which a jump counts for nothing.
"""

import random

import torch
from torch.utils._pytree import tree_flatten, tree_map

from conditioning import LONG, ROUNDING, SHORT, by_a_rounding
from modes import Mode

SAMPLES = 4
EXACT = {"clone", "_to_copy", "cat", "stack", "index", "index_select", "gather", "where", "masked_fill", "scatter",
         "flip", "roll", "clamp", "clamp_min", "clamp_max", "relu", "neg", "abs", "sign", "round", "floor", "ceil",
         "amax", "amin", "max", "min", "maximum", "minimum", "topk", "sort", "constant_pad_nd", "repeat", "tril", "triu"}


class Rounding(Mode):
    """Each operation's results are larger or smaller by `share` of a rounding, or as they are."""

    def __init__(self, seed, share):
        super().__init__()
        self.steps = random.Random(seed)
        self.share = share

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        schema = function._schema
        computes = any(isinstance(value, torch.Tensor) for value in tree_flatten(args)[0])
        aliases = any(one.alias_info for one in (*schema.returns, *schema.arguments))
        if not computes or aliases or schema.name.split("::")[1] in EXACT:
            return result
        step = 1 + self.steps.choice((-1, 0, 1)) * self.share * ROUNDING
        return tree_map(lambda value: value * step if isinstance(value, torch.Tensor) and
                        value.dtype is torch.float64 else value, result)


def changes(call, inputs, exact, seed):
    """Of each output, by element; zero where there is nothing to say."""
    largest = [torch.zeros_like(value) for value in exact]
    try:
        for sample in range(SAMPLES):
            moved = []
            for share in (LONG, SHORT):
                with Rounding(seed + sample, share):
                    moved.append(call([tensor.clone() for tensor in inputs]))
            for number, value in enumerate(exact):
                long, short = ((one[number].double() - value).abs() for one in moved)
                largest[number] = torch.maximum(largest[number], by_a_rounding(long, short))
    except Exception:
        return [torch.zeros_like(value) for value in exact]
    return largest
