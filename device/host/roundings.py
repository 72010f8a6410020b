"""What the roundings of a module's own operations may do: to few outputs, as to a loss that is the rest of large terms,
and to what a softmax's elements share.

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
        self.moves = True

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


class SharedExponent(Mode):
    """Each row of a softmax is larger or smaller by `share` of what one rounding of its largest input makes of it. A
    kernel that computes the row's sum in base 2, or goes by its logarithm, rounds that input where it is large: of a row
    that is all in one element no other move shows it."""

    def __init__(self, seed, share):
        super().__init__()
        self.seed = seed
        self.share = share
        self.moves = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function is not torch.ops.aten._softmax.default or result.dtype is not torch.float64:
            return result
        self.moves = True
        largest = torch.nan_to_num(args[0].amax(dim=args[1], keepdim=True), posinf=0.0, neginf=0.0)
        generator = torch.Generator(device=result.device)
        generator.manual_seed(self.seed)
        signs = torch.randint(0, 2, largest.shape, generator=generator, device=result.device) * 2 - 1
        return result * (1 + signs * largest * (self.share * ROUNDING))


def changes(call, inputs, exact, seed, mode=Rounding, samples=SAMPLES):
    """Of each output, by element; zero where there is nothing to say."""
    largest = [torch.zeros_like(value) for value in exact]
    try:
        for sample in range(samples):
            moved = []
            for share in (LONG, SHORT):
                with mode(seed + sample, share) as moving:
                    moved.append(call([tensor.clone() for tensor in inputs]))
                if not moving.moves:
                    return largest
            for number, value in enumerate(exact):
                long, short = ((one[number].double() - value).abs() for one in moved)
                largest[number] = torch.maximum(largest[number], by_a_rounding(long, short))
    except Exception:
        return [torch.zeros_like(value) for value in exact]
    return largest
