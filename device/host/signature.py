"""What a module's get_inputs() says of a task: the shapes, types and ranges of its tensors.

The gym draws its inputs itself. What it draws must be valid for the module, and what its author assumes of his inputs
beyond shape, type and range is found here as far as it shows, and refused: a gym that fed other data would call an
honest candidate wrong.
"""

import torch

DRAWS = 3
FEW = 16  # of fewer elements little can be said
MOST_ZEROS = 0.01
SURE_DRAWS = 7  # for each whole number from zero on: if none of them was zero, none may be, as of divisors
MOST_LOOKED_AT = 1 << 20  # elements of a tensor


class Refused(Exception):
    pass


def inputs_of(draws, names):
    """Of each argument a dict as backend/host/process_reference.cpp reads it."""
    if any(len(draw) != len(draws[0]) for draw in draws):
        raise Refused("get_inputs() does not always give as many values")
    return [input_of([draw[i] for draw in draws], "input%d" % i, names) for i in range(len(draws[0]))]


def input_of(values, name, names):
    first = values[0]
    if type(first) in (int, float):
        if any(type(value) is not type(first) or value != first for value in values):
            raise Refused("%s is a number that get_inputs() draws: only constant ones are taken" % name)
        return {"dtype": "int64" if type(first) is int else "fp64", "shape": [], "kind": "value", "value": first}
    check_tensors(values, name, names)
    drawn = {"dtype": names[first.dtype], "shape": list(first.shape)}
    if first.numel() > 0 and all(torch.equal(first, value) for value in values[1:]):
        raise Refused("%s is the same at every call of get_inputs(), and the gym would draw it: make it a buffer "
                      "of the module, or write the task with its tensors" % name)
    if first.dtype is torch.bool:
        drawn["kind"] = "zeros_ones"
        return drawn
    low = min(float(value.min()) for value in values)
    high = max(float(value.max()) for value in values)
    if not first.dtype.is_floating_point:
        seen = sum(value.numel() for value in values)
        if low >= 0 and not (low > 0 and seen > SURE_DRAWS * (high + 1)):
            drawn.update(kind="index", limit=int(high) + 1)
        else:
            drawn.update(kind="range", low=low, high=high)
        return drawn
    step = max(1, first.numel() // MOST_LOOKED_AT)
    flat = torch.cat([value.detach().reshape(-1)[::step].double() for value in values])
    return dict(drawn, **range_of(flat, first, name))


def check_tensors(values, name, names):
    first = values[0]
    for value in values:
        if type(value) is not torch.Tensor:
            raise Refused("%s is a %s: tensors and plain numbers are taken" % (name, type(value).__name__))
        if value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
            raise Refused("%s is not a dense tensor on the processor" % name)
        if value.dtype not in names:
            raise Refused("%s is of %s, which tasks have not" % (name, value.dtype))
        if value.shape != first.shape or value.dtype is not first.dtype:
            raise Refused("%s is not of the same shape and type at every call of get_inputs()" % name)
    if first.dim() == 0 or first.numel() == 0:
        raise Refused("%s has the shape %s: a tensor needs elements and an axis" % (name, list(first.shape)))


def range_of(flat, first, name):
    """How the gym may draw the tensor; `flat` has elements of all draws."""
    if not bool(torch.isfinite(flat).all()):
        raise Refused("%s has elements that are not finite" % name)
    if bool(((flat == 0) | (flat == 1)).all()):
        return {"kind": "zeros_ones"}
    if flat.numel() >= FEW:
        if bool((flat == flat.round()).all()):
            raise Refused("%s is of whole numbers in floating point: the gym would draw others" % name)
        if float((flat == 0).double().mean()) > MOST_ZEROS:
            raise Refused("%s has zeros by design: the gym would draw a dense tensor" % name)
    if first.dim() >= 2 and first.shape[-1] == first.shape[-2] > 1 and torch.equal(first, first.transpose(-1, -2)):
        raise Refused("%s is symmetric: the gym would draw a tensor that is not" % name)
    low, high = float(flat.min()), float(flat.max())
    if low >= 0:
        return {"kind": "range", "low": low, "high": high}
    mean, spread = float(flat.mean()), float(flat.std(unbiased=False))
    return {"kind": "normal", "mean": mean if abs(mean) > 0.2 * spread else 0.0,
            "scale": spread if not 0.5 < spread < 2 else 1.0}


def values_of(result, names=()):
    """What a call returned, one after the other; of a dict by the outputs' names, if those are its keys."""
    if isinstance(result, dict):
        return [result[name] for name in (names if set(names) == set(result) else result)]
    return list(result) if isinstance(result, (tuple, list)) else [result]


def outputs_of(result, names):
    results = values_of(result)
    outputs = []
    for number, got in enumerate(results):
        if not isinstance(got, torch.Tensor) or got.layout is not torch.strided or got.is_quantized:
            raise Refused("forward() gives a %s as its output %d: dense tensors are taken" % (
                type(got).__name__, number))
        if got.dtype not in names:
            raise Refused("output %d is of %s, which tasks have not" % (number, got.dtype))
        if got.numel() == 0:
            raise Refused("output %d has no elements" % number)
        outputs.append({"dtype": names[got.dtype], "shape": list(got.shape)})
    return outputs
