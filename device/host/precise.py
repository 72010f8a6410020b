"""A module in double precision, though it names other types: what it computes without the roundings that it asks for.

Inputs and parameters are doubles then, but `x.float()` would round them again, and a kernel that is more exact than the
module would be compared with the module's roundings.
"""

import torch
from torch.utils._pytree import tree_map

import ties
from modes import Mode

# What modules compute in, and its rounding. Eight bits are what values are stored in: their rounding is a result.
FINE = 2.0 ** -24
ROUNDINGS_OF = {torch.float32: FINE, torch.complex64: FINE, torch.float16: 2.0 ** -11, torch.bfloat16: 2.0 ** -8}
# Roundings to 16 bits may cancel each other in an element, and a kernel may leave out any of them. So it may be off as
# outputs of such types are, or as far as any element is, up to a share of the largest.
ROUNDINGS = 4
OFTEN, MOST = 4, 1.0 / 16
SAME = 2.0 ** -40  # of the largest: what doubles lose
SHOWS = 1.0 / 8  # of a rounding: more than finer types make


class NotWide(Exception):
    """The module looks at the bits of its numbers."""


def is_rounded(value):
    return isinstance(value, torch.dtype) and value in ROUNDINGS_OF


def widened(value):
    if not is_rounded(value):
        return value
    return torch.complex128 if value.is_complex else torch.float64


def as_double(value):
    return value.to(widened(value.dtype)) if isinstance(value, torch.Tensor) else value


def writes(function):
    return any(argument.alias_info and argument.alias_info.is_write for argument in function._schema.arguments)


class Wide(Mode):
    """Every type that is asked for is double, and so are constants, where an operation takes them only so: tensors that
    are no parameters stay as they were made. If it `keeps` what 16 bits lose, results are rounded to them, and go on
    as doubles: as in a kernel that stores them, and computes in a wider type."""

    def __init__(self, keeps=False):
        super().__init__()
        self.keeps = keeps
        self.rounding = 0.0  # of the coarsest type that was asked for
        self.mixes = False  # whether doubles met constants of other types
        self.chooses = False  # among equal values

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.ops.aten.view.dtype:
            raise NotWide()
        self.chooses = self.chooses or ties.leaves_open(function, args, kwargs)
        asked = [value for value in (*args, *kwargs.values()) if is_rounded(value)]
        if not asked:
            return self.call(function, args, kwargs)
        coarsest = max(asked, key=ROUNDINGS_OF.get)
        self.rounding = max(self.rounding, ROUNDINGS_OF[coarsest])
        if torch.Tag.nondeterministic_seeded in function.tags:  # doubles would be other numbers
            return function(*args, **kwargs).to(widened(coarsest))
        result = self.call(function, tuple(map(widened, args)),
                           {name: widened(value) for name, value in kwargs.items()})
        loses = self.keeps and ROUNDINGS_OF[coarsest] > FINE and isinstance(result, torch.Tensor)
        return result.to(coarsest).double() if loses else result

    def call(self, function, args, kwargs):
        try:
            return function(*args, **kwargs)
        except RuntimeError:
            if writes(function):
                raise
            result = function(*tree_map(as_double, args), **tree_map(as_double, kwargs))
            self.mixes = True
            return result


class Values:
    """What a module gives in double precision: as it is `written`, and `wide`, without the roundings that it asks for,
    of which the coarsest is `rounding`. They are the same list where it asks for none, and where only one of them can
    be computed: only `wide` if the module `mixes` types. `call` takes what `copies` makes."""

    def __init__(self, call, copies):
        mode = Wide()
        self.wide = self.kept = None
        self.chosen = []  # what other orders of equal values give
        try:
            with mode:
                self.wide = call(copies())
        except Exception:
            mode.rounding = max(mode.rounding, FINE)
        self.rounding, self.mixes = mode.rounding, mode.mixes
        self.choose(mode.chooses, call, copies)
        if not self.rounding:
            self.written = self.wide
            return
        try:
            self.written = call(copies())
        except Exception:
            if self.wide is None:
                raise
            self.written, self.mixes = self.wide, True
        if not are_alike(self.wide, self.written):
            self.wide = self.written
        if self.rounding > FINE and not self.are_one():
            try:
                with Wide(keeps=True):
                    self.kept = call(copies())
            except Exception:
                pass
            self.kept = self.kept if are_alike(self.kept, self.written) else None

    def choose(self, chooses, call, copies):
        for last in (False, True) if chooses and self.wide is not None else ():
            with Wide(), ties.Order(last):
                values = call(copies())
            if are_alike(values, self.wide):
                self.chosen.append(values)

    def are_one(self):
        return self.wide is self.written

    def between(self, number, own):
        """Of an output, which is `own` in the module's own precision: what lies in the middle between all values, and
        how far from it a kernel may be that rounds as the module does, or less often. Where a type that the module asks
        for cannot hold a value, anything may stand."""
        written, wide = self.written[number].double().clone(), self.wide[number].double()
        chosen = [values[number].double() for values in self.chosen]
        if not own.dtype.is_floating_point:  # compared exactly: on either side of a jump, nothing beyond
            values = [written, wide, *chosen] + ([own.double()] if own.shape == written.shape else [])
            low, high = torch.stack(values).amin(0), torch.stack(values).amax(0)
            return low / 2 + high / 2, high / 2 - low / 2
        if self.are_one() and not chosen:
            return written, torch.zeros_like(written)
        others = [written, *chosen] + ([self.kept[number].double()] if self.kept else [])
        known = torch.isfinite(wide)
        lost, low, high = torch.zeros_like(known), wide, wide
        for other in others:
            lost = lost | ~torch.isfinite(other)
            low, high = torch.minimum(low, other), torch.maximum(high, other)
        both = known & ~lost
        zero = torch.zeros_like(wide)
        size, off = torch.where(both, wide.abs(), zero), torch.where(both, high - low, zero)
        apart = off / 2
        if self.rounding > FINE and size.numel() and self.hangs_on_16_bits(number, size, off):
            of_others = torch.minimum(OFTEN * off.max(), MOST * size.max())
            apart = apart + torch.maximum(self.rounding * (ROUNDINGS * size + size.max()), of_others)
        middle = torch.where(both, low / 2 + high / 2, torch.where(known, wide, written))
        return middle, torch.where(known & lost, torch.full_like(apart, float("inf")), apart)

    def hangs_on_16_bits(self, number, size, off):
        """Else what the module asks of fp32 makes the difference."""
        if self.kept:
            moved = (self.kept[number].double() - self.wide[number].double()).abs()
            if bool((moved > SAME * size.max()).any()):
                return True
        return bool((off > SHOWS * self.rounding * size).any())


def are_alike(some, others):
    return some is not None and [one.shape for one in some] == [one.shape for one in others]
