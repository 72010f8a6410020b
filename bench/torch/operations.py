"""What is compared: each operation as a Lathe task and as the PyTorch that a user would write, at three sizes."""

from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Operation:
    task: str  # TOML, without shapes
    function: Callable  # of tensors in the task's order
    sizes: tuple  # of dims, small to large
    fused: bool = False  # a chain that eager PyTorch runs as several kernels


def task(name, dims, tensors, graph):
    ranges = ", ".join(f"{dim} = [1, 2147483647]" for dim in dims)
    listed = ",\n  ".join("{ " + tensor + " }" for tensor in tensors)
    return f'name = "{name}"\ndims = {{ {ranges} }}\ntensor = [\n  {listed},\n]\ngraph = """\n{graph}\n"""\n'


def sizes(names, *extents):
    return tuple(dict(zip(names, each)) for each in extents)


MATRIX = ("rows", "cols")
X = 'name = "x", shape = ["rows", "cols"]'
ROWS = sizes(MATRIX, (512, 1024), (4096, 2048), (32768, 4096))


def per_column(name):
    return f'name = "{name}", shape = ["cols"], role = "parameter"'


def index(name, limit):
    return f'name = "{name}", shape = ["rows"], role = "index", gen = {{ kind = "index", limit = "{limit}" }}'


OPERATIONS = {
    "softmax": Operation(
        task("softmax", MATRIX, [X], "y = softmax(x)"), lambda x: torch.softmax(x, -1), ROWS),
    "layer_norm": Operation(
        task("layer_norm", MATRIX, [X, per_column("scale"), per_column("bias")],
             "y = layer_norm(x, scale, bias, eps = 1e-5)"),
        lambda x, scale, bias: F.layer_norm(x, x.shape[-1:], scale, bias, 1e-5), ROWS),
    "rms_norm": Operation(
        task("rms_norm", MATRIX, [X, per_column("scale")], "y = rms_norm(x, scale, eps = 1e-6)"),
        lambda x, scale: F.rms_norm(x, x.shape[-1:], scale, 1e-6), ROWS),
    "gelu": Operation(
        task("gelu", ["n"], ['name = "x", shape = ["n"]'], "y = gelu(x)"), F.gelu,
        sizes(["n"], (1 << 19,), (1 << 23,), (1 << 27,))),
    "bias_gelu_scale": Operation(
        task("bias_gelu_scale", MATRIX, [X, per_column("bias"), per_column("scale")],
             "z = bias_add(x, bias)\ng = gelu(z)\ny = mul(g, scale)"),
        lambda x, bias, scale: F.gelu(x + bias) * scale, ROWS, fused=True),
    "transpose": Operation(
        task("transpose", MATRIX, [X], "y = transpose(x, perm = [1, 0])"), lambda x: x.t().contiguous(),
        sizes(MATRIX, (512, 1024), (2048, 4096), (8192, 16384))),
    "cross_entropy": Operation(
        task("cross_entropy", MATRIX, [X, index("labels", "cols")], "y = cross_entropy(x, labels)"),
        lambda x, labels: F.cross_entropy(x, labels.long()),
        sizes(MATRIX, (512, 1024), (1024, 8192), (4096, 32768))),
    "sum_columns": Operation(
        task("sum_columns", MATRIX, [X], "y = sum(x, axis = 0)"), lambda x: x.sum(0),
        sizes(MATRIX, (1024, 512), (8192, 1024), (65536, 2048))),
    "var_columns": Operation(
        task("var_columns", MATRIX, [X], "y = var(x, axis = 0)"), lambda x: x.var(0, correction=0),
        sizes(MATRIX, (1024, 512), (8192, 1024), (65536, 2048))),
    "mse_loss": Operation(
        task("mse_loss", MATRIX, [X, 'name = "target", shape = ["rows", "cols"]'], "y = mse_loss(x, target)"),
        F.mse_loss, ROWS, fused=True),
    "sum_long_rows": Operation(
        task("sum_long_rows", MATRIX, [X], "y = sum(x, axis = 1)"), lambda x: x.sum(1),
        sizes(MATRIX, (8, 65536), (8, 1 << 20), (8, 1 << 24))),
}


def inputs(document, generator):
    """Tensors for the inputs of a lathe.build document."""
    made = []
    for tensor in document["inputs"]:
        if tensor["dtype"] == "int32":
            columns = document["inputs"][0]["shape"][-1]
            made.append(torch.randint(0, columns, tensor["shape"], generator=generator, device="cuda").int())
        else:
            made.append(torch.randn(tensor["shape"], generator=generator, device="cuda"))
    return made
