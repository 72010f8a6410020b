"""What a module is off by in its own precision: on the given inputs, and of few outputs also on inputs beside them, and
by what its operations' roundings may change.

A loss is one number, which may be right by luck where a kernel that is as exact is not.
"""

import torch

import roundings

FEW = 64  # elements, one of which may be as far off as the module ever is
SAMPLES = 6
OF_OPERATIONS = 0.5  # of what a rounding of each changes


def off_by(own, value):
    """Infinite where the module's own precision does not hold the value."""
    return torch.nan_to_num((own.double() - value).abs(), nan=float("inf"), posinf=float("inf"))


def beside(tensor, generator):
    """The same numbers or their neighbours, within the tensor's own range."""
    exact = tensor.double()
    steps = torch.randint(-1, 2, tensor.shape, generator=generator, device=tensor.device)
    there = exact * (1 + torch.finfo(tensor.dtype).eps * steps)
    return torch.minimum(torch.maximum(there, exact.min()), exact.max()).to(tensor.dtype)


def with_roundings(off, own, exact, call_wide, inputs, seed):
    """`off`, raised for few outputs to what the roundings of operations may do; doubles have smaller ones."""
    lucky = [one.numel() < FEW and one.is_floating_point() and one.dtype is not torch.float64 for one in own]
    if not any(lucky):
        return off
    changes = roundings.changes(call_wide, inputs, exact, seed)
    return [torch.maximum(error, OF_OPERATIONS * change) if is_lucky else error
            for error, change, is_lucky in zip(off, changes, lucky)]


def own_errors(off, call_own, call_wide, inputs, movable, seed):
    """`off`, raised for few outputs to the largest of several samples; as it is where the module fails on others."""
    lucky = [one.numel() < FEW for one in off]
    if not any(lucky) or not any(movable):
        return off
    raised = list(off)
    try:
        for sample in range(SAMPLES):
            tensors = []
            for place, (tensor, moves) in enumerate(zip(inputs, movable)):
                generator = torch.Generator(device=tensor.device)
                generator.manual_seed(seed + sample * len(inputs) + place)
                tensors.append(beside(tensor, generator) if moves else tensor)
            own = call_own([tensor.clone() for tensor in tensors])
            wide = call_wide([tensor.clone() for tensor in tensors])
            for number, (value, exact) in enumerate(zip(own, wide)):
                if lucky[number]:
                    error = torch.nan_to_num((value.double() - exact.double()).abs(), nan=0.0, posinf=0.0)
                    raised[number] = torch.maximum(raised[number], error)
    except Exception:
        return off
    return raised
