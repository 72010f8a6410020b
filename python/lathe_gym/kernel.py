"""Exported kernels as functions of PyTorch tensors."""

from __future__ import annotations

import ast
import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import torch
import torch.utils.dlpack

from .errors import KernelError
from .gemm import Gemm

_DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "int64": torch.int64,
    "bool": torch.bool,
}
# PyTorch has had types of 8 bits since 2.1.
for _name, _type in ("fp8e4m3", "float8_e4m3fn"), ("fp8e5m2", "float8_e5m2"):
    if hasattr(torch, _type):
        _DTYPES[_name] = getattr(torch, _type)
_SCALARS: dict[str, Any] = {
    "fp64": ctypes.c_double,
    "fp32": ctypes.c_float,
    "int8": ctypes.c_int8,
    "uint8": ctypes.c_uint8,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "bool": ctypes.c_uint8,
}
# Of what C has no type for it takes the bits.
_BITS = {"fp16": ctypes.c_uint16, "bf16": ctypes.c_uint16, "fp8e4m3": ctypes.c_uint8, "fp8e5m2": ctypes.c_uint8}
_SCALARS.update({name: kind for name, kind in _BITS.items() if name in _DTYPES})
_ALIGNMENT = 64
_OUTSIDE_DOMAIN = 1

# Shares a launch's items among OpenMP's threads, which PyTorch's operations use as well.
_PARALLEL = """
#include <stdint.h>
#include <omp.h>
extern "C" void lathe_torch_run(void* context, int64_t items, void (*body)(void*, int64_t, int64_t), void* state) {
  const int64_t threads = *static_cast<const int64_t*>(context);
#pragma omp parallel num_threads(static_cast<int>(threads < items ? threads : items))
  {
    const int64_t at = omp_get_thread_num(), count = omp_get_num_threads();
    const int64_t each = items / count, more = items % count;
    const int64_t begin = at * each + (at < more ? at : more);
    const int64_t end = begin + each + (at < more ? 1 : 0);
    if (begin < end) body(state, begin, end);
  }
}
"""


class _Parallel(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int64), ("context", ctypes.c_void_p), ("run", ctypes.c_void_p)]


@dataclass(frozen=True)
class _Parameter:
    name: str
    role: str
    """"scalar", "input", "inout" or "output"."""
    dtype: str
    shape: tuple[str, ...]
    value: Optional[float]

    @property
    def given(self) -> bool:
        """Whether the caller passes it."""
        return self.role != "output" and not (self.role == "scalar" and self.value is not None)


class Kernel:
    """An exported kernel. Called with the task's inputs in its order (or by name), it returns its outputs: one
    tensor, or a tuple. A scalar that the task fixes need not be given; a dim that no input's shape tells is given by
    name. Inputs are never changed: a tensor that the task overwrites is copied, and the copy returned.

    Inputs are tensors of the CPU, or anything with `__dlpack__`; those that are not dense or not at a multiple of 64
    bytes are copied. `threads`: None is torch.get_num_threads()."""

    def __init__(self, folder: Path, document: Mapping[str, Any], library: Path) -> None:
        self.name: str = document["name"]
        self.evidence = document
        """All that was verified and measured: evidence.json."""
        interface = document["interface"]
        self._parameters = tuple(
            _Parameter(one["name"], one["role"], one["dtype"], tuple(one["shape"]), one.get("value"))
            for one in interface["parameters"]
        )
        for one in self._parameters:
            if one.dtype not in (_SCALARS if one.role == "scalar" else _DTYPES):
                raise KernelError(
                    f"{self.name}: PyTorch {torch.__version__} has no {one.role} of type {one.dtype} ({one.name})"
                )
        self._dims: tuple[str, ...] = tuple(interface["dims"])
        self._inputs = tuple(one for one in self._parameters if one.given)
        self._results = tuple(one for one in self._parameters if one.role in ("inout", "output"))
        handle = ctypes.CDLL(str(library))
        dims: list[Any] = [ctypes.c_int64] * len(self._dims)
        self._bytes = handle[f"lathe_{self.name}_workspace_bytes"]
        self._bytes.argtypes = [*dims, ctypes.c_void_p]
        self._bytes.restype = ctypes.c_int64
        self._function = handle[f"lathe_{self.name}"]
        data: list[Any] = [_SCALARS[one.dtype] if one.role == "scalar" else ctypes.c_void_p for one in self._parameters]
        self._function.argtypes = [*data, *dims, ctypes.c_void_p, ctypes.c_void_p]
        self._function.restype = ctypes.c_int
        self._run = ctypes.cast(handle.lathe_torch_run, ctypes.c_void_p).value
        self.threads: Optional[int] = None
        self._folder = folder

    def __repr__(self) -> str:
        results = ", ".join(f"{one.name}: {one.dtype}[{', '.join(one.shape)}]" for one in self._results)
        inputs = ", ".join(f"{one.name}: {one.dtype}[{', '.join(one.shape)}]" for one in self._inputs)
        return f"<lathe kernel {self.name}({inputs}) -> {results}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        values = self._bound(args, named)
        dims = self._dims_of(values, named)
        return self._launch(values, dims)

    def _bound(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Values by parameter, checked but for their extents."""
        names = [one.name for one in self._inputs]
        if len(args) > len(names):
            raise TypeError(f"{self.name} takes {len(names)} inputs ({', '.join(names)}), not {len(args)}")
        values = dict(zip(names, args))
        for name, value in named.items():
            if name in values:
                raise TypeError(f"{self.name}: {name} is given twice")
            if name not in names and name not in self._dims:
                raise TypeError(f"{self.name} has no input {name}; it has {', '.join([*names, *self._dims])}")
            if name in names:
                values[name] = value
        missing = [name for name in names if name not in values]
        if missing:
            raise TypeError(f"{self.name}: {', '.join(missing)} is missing")
        for one in self._inputs:
            values[one.name] = self._checked(one, values[one.name])
        return values

    def _checked(self, parameter: _Parameter, value: Any) -> Any:
        what = f"{self.name}: {parameter.name}"
        if parameter.role == "scalar":
            if isinstance(value, torch.Tensor):
                if value.numel() != 1:
                    raise TypeError(f"{what} is a scalar, not a tensor of shape {tuple(value.shape)}")
                value = value.item()
            if not isinstance(value, (int, float)):
                raise TypeError(f"{what} is a scalar, not {type(value).__name__}")
            return _number(parameter.dtype, value)
        if not isinstance(value, torch.Tensor):
            if not hasattr(value, "__dlpack__"):
                raise TypeError(f"{what} is no tensor but {type(value).__name__}")
            value = torch.utils.dlpack.from_dlpack(value)
        if value.device.type != "cpu":
            raise TypeError(f"{what} is on {value.device}, and this kernel is the CPU's")
        if value.dtype != _DTYPES[parameter.dtype]:
            raise TypeError(f"{what} is {value.dtype}, and the kernel takes {_DTYPES[parameter.dtype]}")
        if value.dim() != len(parameter.shape):
            raise ValueError(f"{what} has {value.dim()} dims, and the kernel takes [{', '.join(parameter.shape)}]")
        if value.requires_grad and torch.is_grad_enabled():
            raise KernelError(f"{what} requires a gradient, and the kernel has none: detach it, or use torch.no_grad()")
        return value

    def _dims_of(self, values: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, int]:
        dims = {name: int(named[name]) for name in self._dims if name in named}
        tensors = [one for one in self._inputs if one.role != "scalar"]
        told = [(text, int(extent)) for one in tensors for text, extent in zip(one.shape, values[one.name].shape)]
        for text, extent in told:
            if text in self._dims:
                dims.setdefault(text, extent)
        known = -1
        while known < len(dims) < len(self._dims):
            known = len(dims)
            for text, extent in told:
                dims.update(_told_by(text, extent, self._dims, dims))
        missing = [name for name in self._dims if name not in dims]
        if missing:
            raise TypeError(f"{self.name}: no input's shape tells {', '.join(missing)}; give it by name")
        for one in tensors:
            expected, actual = _shape(one, dims), tuple(values[one.name].shape)
            if expected != actual:
                terms = ", ".join(f"{name}={dims[name]}" for name in self._dims)
                raise ValueError(
                    f"{self.name}: {one.name} has the shape {actual}, and [{', '.join(one.shape)}] "
                    f"is {expected} where {terms}"
                )
        return dims

    def _launch(self, values: Mapping[str, Any], dims: Mapping[str, int]) -> Any:
        extents = [dims[name] for name in self._dims]
        threads = ctypes.c_int64(self.threads or torch.get_num_threads())
        parallel = _Parallel(threads.value, ctypes.addressof(threads), self._run)
        needed = self._bytes(*extents, ctypes.byref(parallel))
        if needed < 0:
            terms = ", ".join(f"{name}={dims[name]}" for name in self._dims)
            raise KernelError(f"{self.name} was not made for {terms}: {self._folder}/README.md tells its domain")
        held: dict[str, torch.Tensor] = {}
        arguments: list[Any] = []
        for one in self._parameters:
            if one.role == "scalar":
                arguments.append(_bits(one.dtype, values[one.name] if one.given else _fixed(one)))
                continue
            if one.role == "output":
                held[one.name] = _empty(_shape(one, dims), _DTYPES[one.dtype])
            else:
                held[one.name] = _dense(values[one.name].detach(), copy=one.role == "inout")
            arguments.append(held[one.name].data_ptr())
        workspace = _empty((needed,), torch.uint8)
        status = self._function(*arguments, *extents, workspace.data_ptr() if needed else None, ctypes.byref(parallel))
        if status != 0:
            why = "these dims are outside its domain" if status == _OUTSIDE_DOMAIN else f"error {status}"
            raise KernelError(f"{self.name}: {why}")
        results = tuple(held[one.name] for one in self._results)
        return results[0] if len(results) == 1 else results

    def register(self, namespace: str = "lathe") -> Any:
        """Makes it torch.ops.NAMESPACE.NAME, and says its outputs' shapes, so that torch.compile may go past it.
        Needs a PyTorch with torch.library.custom_op (2.4), and a kernel whose dims its inputs tell."""
        if not hasattr(torch.library, "custom_op"):
            raise KernelError(f"torch {torch.__version__} has no torch.library.custom_op; 2.4 has it")
        inputs = ", ".join(f"{_schema_type(one)} {one.name}" for one in self._inputs)
        outputs = ", ".join(["Tensor"] * len(self._results))
        schema = f"({inputs}) -> {outputs if len(self._results) == 1 else f'({outputs})'}"
        operation = torch.library.custom_op(
            f"{namespace}::{self.name}", self, mutates_args=(), device_types="cpu", schema=schema
        )

        def shapes(*args: Any) -> Any:
            values = dict(zip([one.name for one in self._inputs], args))
            dims = self._dims_of(values, {})
            like = next(value for value in values.values() if isinstance(value, torch.Tensor))
            made = tuple(like.new_empty(_shape(one, dims), dtype=_DTYPES[one.dtype]) for one in self._results)
            return made[0] if len(made) == 1 else made

        operation.register_fake(shapes)
        return getattr(getattr(torch.ops, namespace), self.name)


def load(package: Union[str, "os.PathLike[str]"]) -> Union[Kernel, Gemm]:
    """The kernel of a package that `lathe export` wrote, or the matrix product of one that `lathe gemm export` did. Its
    first load on a machine compiles a kernel with $CXX (else c++), into $XDG_CACHE_HOME/lathe: a package's code is
    run, so load what you trust. Raises KernelError."""
    folder = Path(package).resolve()
    if (folder / "lib" / "liblathe_gemm.so").exists():
        return Gemm(folder / "lib" / "liblathe_gemm.so")
    try:
        document = json.loads((folder / "evidence.json").read_text())
    except (OSError, ValueError) as error:
        raise KernelError(f"{folder} is no package that lathe export wrote: {error}") from None
    if (
        document.get("schema") != "lathe.evidence/1"
        or "interface" not in document
        or _takes_halves_by_value(folder)
    ):
        raise KernelError(f"{folder} was written by another version: export the kernel again")
    return Kernel(folder, document, _library(folder, document))


def _library(folder: Path, document: Mapping[str, Any]) -> Path:
    """Compiled for this processor, once."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        raise KernelError("there is no C++ compiler to compile the kernel: install g++, or set CXX")
    sources = sorted([*folder.glob("src/*.cpp")])
    sources = [one for one in sources if not one.name.endswith(".lathe.cpp")]
    headers = sorted([*folder.glob("include/*.h"), *folder.glob("device/**/*.h")])
    flags = [*document["interface"]["flags"].split(), "-std=c++20", "-shared", "-fPIC", "-fopenmp"]
    digest = hashlib.sha256()
    for part in (compiler, _version_of(compiler), _processor(), " ".join(flags), _PARALLEL):
        digest.update(part.encode() + b"\0")
    for one in (*sources, *headers):
        digest.update(one.name.encode() + b"\0" + one.read_bytes() + b"\0")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lathe" / "kernels"
    made = cache / digest.hexdigest() / f"liblathe_{document['name']}.so"
    if made.exists():
        return made
    made.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=made.parent) as work:
        runner = Path(work) / "parallel.cpp"
        runner.write_text(_PARALLEL)
        command = [compiler, *flags, f"-I{folder}/include", f"-I{folder}/device"]
        command += [*map(str, sources), str(runner), "-o", f"{work}/out.so"]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode != 0:
            raise KernelError(f"{compiler} cannot compile {folder}: {ran.stderr.strip()[:2000]}")
        os.replace(f"{work}/out.so", made)  # atomic: two processes may load at once
    return made


def _takes_halves_by_value(folder: Path) -> bool:
    """As packages of older versions took scalars, which now are passed as bits."""
    return any("_Float16 " in header.read_text() for header in folder.glob("include/*.h"))


def _version_of(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout


def _processor() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return sys.platform
    return next((line for line in lines if line.startswith("flags")), "")


def _schema_type(parameter: _Parameter) -> str:
    if parameter.role != "scalar":
        return "Tensor"
    return "float" if _DTYPES[parameter.dtype].is_floating_point else "int"


def _number(dtype: str, value: float) -> Union[int, float]:
    return float(value) if _DTYPES[dtype].is_floating_point else int(value)


def _fixed(parameter: _Parameter) -> Union[int, float]:
    assert parameter.value is not None
    return _number(parameter.dtype, parameter.value)


def _bits(dtype: str, value: Union[int, float]) -> Union[int, float]:
    """As the C function takes it."""
    if dtype not in _BITS:
        return value
    whole = torch.int16 if _BITS[dtype] is ctypes.c_uint16 else torch.int8
    return int(torch.tensor([value], dtype=_DTYPES[dtype]).view(whole).item())


def _empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """At a multiple of 64 bytes."""
    size = torch.empty((), dtype=dtype).element_size()
    count = 1
    for extent in shape:
        count *= extent
    spare = torch.empty(count + _ALIGNMENT // size, dtype=dtype)
    skip = -spare.data_ptr() % _ALIGNMENT // size
    return spare[skip : skip + count].view(tuple(shape))


def _dense(tensor: torch.Tensor, copy: bool) -> torch.Tensor:
    if not copy and tensor.is_contiguous() and tensor.data_ptr() % _ALIGNMENT == 0:
        return tensor
    made = _empty(tuple(tensor.shape), tensor.dtype)
    made.copy_(tensor)
    return made


def _shape(parameter: _Parameter, dims: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(_value(text, dims) for text in parameter.shape)


_FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "min": min,
    "max": max,
    "cdiv": lambda a, b: -(-a // b),
    "align": lambda a, b: -(-a // b) * b,
}
_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
}


def _told_by(text: str, extent: int, names: Sequence[str], dims: Mapping[str, int]) -> dict[str, int]:
    """What the extent of "R + 1" or "2 * D" tells of its one dim that is not known, if it is a sum or a product."""

    def unknown(node: ast.expr) -> list[str]:
        return [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in names and one.id not in dims]

    try:
        node: ast.expr = ast.parse(text, mode="eval").body
    except SyntaxError:
        return {}
    if len(unknown(node)) != 1:
        return {}
    while isinstance(node, ast.BinOp):
        at_left = bool(unknown(node.left))
        other = _value(ast.unparse(node.right if at_left else node.left), dims)
        if isinstance(node.op, ast.Add):
            extent -= other
        elif isinstance(node.op, ast.Sub):
            extent = extent + other if at_left else other - extent
        elif isinstance(node.op, ast.Mult) and other != 0:
            extent //= other
        else:
            return {}
        node = node.left if at_left else node.right
    return {node.id: extent} if isinstance(node, ast.Name) else {}


def _value(text: str, dims: Mapping[str, int]) -> int:
    """Of an extent: integer arithmetic over dims, which are positive."""

    def of(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name) and node.id in dims:
            return dims[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -of(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            a, b = node.args
            return _FUNCTIONS[node.func.id](of(a), of(b))
        raise KernelError(f"the extent {text} is more than this version can evaluate")

    try:
        return of(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise KernelError(f"the extent {text} is more than this version can evaluate") from None
