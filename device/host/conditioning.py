"""By how much the outputs of a module change where its inputs are rounded: the error that any stable algorithm may have.

Each number is moved by a random multiple of one rounding to fp32, and what the module makes of it in fp64 is compared
with what it made before. Only a fraction of a rounding is moved, and the change scaled up, so that the function is as
good as linear over it; a second, still smaller move in the same direction tells whether it is. A jump (a comparison, a
sign, a rounding) is as large after the smaller move, or gone, and counts for nothing.
"""

import torch

ROUNDING = 2.0 ** -24  # of fp32: kernels of 16-bit tensors compute in it too
DIRECTIONS = 4  # in one alone, the moves of two inputs may cancel
SURE = 2  # that show nothing are enough
STEADY = 2  # roundings of the largest element that a change may be where the tolerance needs nothing added
LONG, SHORT = 2.0 ** -4, 2.0 ** -8  # of a rounding: the moves
MOST_OF_LONG = 0.25  # of the change by the long move that the short one may make; a linear function: 1/16
SHORTEST_LINE = 8  # elements that tell of what they share
UNLIKELY = 6  # bits that are all zero: numbers are whole by design


def is_movable(tensor):
    """Whole numbers are counts, labels or masks, and the reference knows numbers in fp64 no better than a kernel. But
    large numbers of a coarse type are whole by chance, as of bf16 all from 128 on."""
    if not tensor.is_floating_point() or tensor.dtype is torch.float64 or tensor.numel() == 0:
        return False
    exact = tensor.double()  # PyTorch 1.13 rounds no fp16
    if bool((exact != exact.round()).any()):
        return True
    sizes = exact.abs().unique()
    sizes = sizes[sizes > 0]
    bits_of_fraction = (1 / (sizes * torch.finfo(tensor.dtype).eps)).log2().ceil().clamp(min=0)
    return bool(sizes.numel() > 0) and float(bits_of_fraction.sum()) < UNLIKELY


def moved(tensor, direction, share):
    """Within the range of the tensor's own values, so within any domain that is an interval; of a single value towards
    zero."""
    exact = tensor.double()
    step = exact * direction * (share * ROUNDING)
    low, high = exact.min(), exact.max()
    if bool(low == high):
        return exact - exact.sign() * step.abs()
    there = exact + step
    there = torch.where((there < low) | (there > high), exact - step, there)
    return torch.minimum(torch.maximum(there, low), high)


def is_steady(change, exact):
    finite = torch.where(torch.isfinite(exact), exact.abs(), torch.zeros_like(exact))
    return not bool((change > LONG * STEADY * ROUNDING * finite.max()).any()) if exact.numel() else True


def with_shared(change, exact):
    """What the elements of a line share, as a softmax's do their sum, may be off by as much as half of them are, beside
    their sizes, though one of them does not hang on it."""
    size = torch.where(torch.isfinite(exact), exact.abs(), torch.zeros_like(exact))
    shares = torch.where(size > 0, change / size, torch.full_like(size, float("nan")))
    for axis, extent in enumerate(exact.shape):
        if extent >= SHORTEST_LINE:
            of_line = torch.nan_to_num(shares.nanmedian(dim=axis, keepdim=True).values, nan=0.0, posinf=0.0)
            change = torch.maximum(change, of_line * size)
    return change


def by_a_rounding(long, short):
    """What a whole rounding changes, after the changes by both moves; nothing where they tell of a jump."""
    linear = short <= MOST_OF_LONG * long
    estimate = torch.where(linear, torch.minimum(long / LONG, short / SHORT), torch.zeros_like(long))
    return torch.nan_to_num(estimate, nan=0.0, posinf=0.0)


def changes_by_rounding(call, inputs, movable, exact, seed):
    """Of each output, by element: zero where there is nothing to say, as where the module fails on moved inputs."""
    largest = [torch.zeros_like(value) for value in exact]
    if not any(movable):
        return largest

    def changes(number, share):
        arguments = []
        for place, (tensor, moves) in enumerate(zip(inputs, movable)):
            generator = torch.Generator(device=tensor.device)
            generator.manual_seed(seed + number * len(inputs) + place)
            arguments.append(moved(tensor, torch.randn(tensor.shape, generator=generator, device=tensor.device),
                                   share) if moves else tensor.clone())
        return [(result.double() - value).abs() for result, value in zip(call(arguments), exact)]

    try:
        far = [changes(number, LONG) for number in range(SURE)]
        if all(is_steady(change, value) for one in far for change, value in zip(one, exact)):
            return largest
        for number in range(DIRECTIONS):
            longs = far[number] if number < SURE else changes(number, LONG)
            for place, (long, short) in enumerate(zip(longs, changes(number, SHORT))):
                largest[place] = torch.maximum(largest[place], by_a_rounding(long, short))
        return [with_shared(change, value) for change, value in zip(largest, exact)]
    except Exception:
        return [torch.zeros_like(value) for value in exact]
