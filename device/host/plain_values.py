"""The arguments of a module's constructor, as JSON that other processes make the same values of.

JSON itself has no tuples, no infinity and no keys but text, and reads large whole numbers as others.
"""

import math

import torch

LARGEST = 1 << 53


class Refused(Exception):
    pass


def encode(value):
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if abs(value) < LARGEST else {"int": str(value)}
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is list:
        return [encode(one) for one in value]
    if type(value) in (tuple, torch.Size):
        return {"tuple": [encode(one) for one in value]}
    if type(value) is dict:
        return {"dict": [[encode(key), encode(one)] for key, one in value.items()]}
    if isinstance(value, (torch.dtype, torch.memory_format)):
        return {"torch": str(value)[len("torch."):]}
    raise Refused("get_init_inputs() gives a %s: numbers, texts, lists, tuples and dicts are taken" %
                  type(value).__name__)


def decode(node):
    if type(node) is list:
        return [decode(one) for one in node]
    if type(node) is not dict:
        return node
    (kind, content), = node.items()
    if kind == "tuple":
        return tuple(decode(one) for one in content)
    if kind == "dict":
        return {decode(key): decode(one) for key, one in content}
    return getattr(torch, content) if kind == "torch" else {"int": int, "float": float}[kind](content)


def make(entry, arguments):
    """What a constructor makes of them: of a dict by their names."""
    return entry(**arguments) if isinstance(arguments, dict) else entry(*arguments)


def written(arguments):
    """As they stand in a call."""
    if isinstance(arguments, dict):
        return ", ".join("%s=%r" % one for one in arguments.items())
    return ", ".join(map(repr, arguments))
