"""The library of `lathe gemm export` as a matrix product of CUDA tensors. Its tests reach what needs no GPU; its
launches take one."""

from __future__ import annotations

import ctypes
import threading
import weakref
from pathlib import Path
from typing import Any, Optional

import torch

from .errors import KernelError


class Gemm:
    """alpha a @ b + beta c for fp16 matrices of one GPU, on its current stream; sums are fp32. Rows or columns of a
    and b must be dense, else they are copied. Without `out` the result is allocated (and c copied into it); `out` may
    be c."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        self._library.lathe_hgemm.argtypes = [
            pointer, ctypes.c_int, integer, integer, integer, ctypes.c_float, pointer, integer, pointer, integer,
            ctypes.c_float, pointer, integer, ctypes.c_int, pointer,
        ]  # fmt: skip
        self._library.lathe_gemm_create.argtypes = [ctypes.POINTER(pointer)]
        self._library.lathe_gemm_last_error.restype = ctypes.c_char_p
        self._handles: dict[int, ctypes.c_void_p] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        c: Optional[torch.Tensor] = None,
        out: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        _check_product(a, b, c, out)
        if beta != 0 and c is None:
            raise TypeError("beta is given and c is not")
        if out is None:
            out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        if beta != 0 and c is not None and c is not out:
            out.copy_(c)
        arguments = _arguments(_dense(a), _dense(b), out, alpha, beta)
        with torch.cuda.device(a.device):
            stream = torch.cuda.current_stream(a.device).cuda_stream
            self._refuse(self._library.lathe_hgemm(self._handle(a.device), *arguments, stream))
        return out

    def prepare(
        self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, alpha: float = 1.0, beta: float = 0.0
    ) -> "PreparedGemm":
        """out = alpha a @ b + beta out as a function without arguments, for the same three tensors again and again: a
        call is a launch and nothing else. Their contents may change, their places may not."""
        _check_product(a, b, None, out)
        for name, one in (("a", a), ("b", b)):
            if _dense(one) is not one:
                raise ValueError(f"neither rows nor columns of {name} are dense, and a prepared product copies nothing")
        library, product = self._library, ctypes.c_void_p()
        library.lathe_hgemm_prepare.argtypes = library.lathe_hgemm.argtypes
        library.lathe_gemm_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        library.lathe_gemm_product_destroy.argtypes = [ctypes.c_void_p]
        library.lathe_gemm_product_destroy.restype = None
        with torch.cuda.device(a.device):
            arguments = _arguments(a, b, out, alpha, beta)
            self._refuse(library.lathe_hgemm_prepare(self._handle(a.device), *arguments, ctypes.byref(product)))
        return PreparedGemm(self, product, (a, b, out))

    def register(self, namespace: str = "lathe", name: str = "gemm") -> Any:
        """Makes it torch.ops.NAMESPACE.NAME(a, b, alpha=1, beta=0, c=None), and says its result's shape, so that
        torch.compile may go past it. Needs a PyTorch with torch.library.custom_op (2.4). There is no gradient."""
        if not hasattr(torch.library, "custom_op"):
            raise KernelError(f"torch {torch.__version__} has no torch.library.custom_op; 2.4 has it")

        def product(
            a: torch.Tensor, b: torch.Tensor, alpha: float = 1.0, beta: float = 0.0, c: Optional[torch.Tensor] = None
        ) -> torch.Tensor:
            return self(a, b, alpha=alpha, beta=beta, c=c)

        operation = torch.library.custom_op(
            f"{namespace}::{name}",
            product,
            mutates_args=(),
            device_types="cuda",
            schema="(Tensor a, Tensor b, float alpha=1., float beta=0., Tensor? c=None) -> Tensor",
        )

        def shape(
            a: torch.Tensor, b: torch.Tensor, alpha: float = 1.0, beta: float = 0.0, c: Optional[torch.Tensor] = None
        ) -> torch.Tensor:
            for what, one in (("a", a), ("b", b), ("c", c)):
                _check_form(what, one)
            _check_extents(a, b, c, None)
            return a.new_empty((a.shape[0], b.shape[1]))

        operation.register_fake(shape)
        return getattr(getattr(torch.ops, namespace), name)

    def _handle(self, device: torch.device) -> ctypes.c_void_p:
        """Of the device that is current, which is `device`."""
        with self._lock:
            index = device.index or 0
            if index not in self._handles:
                torch.cuda.current_stream(device).synchronize()  # so that there is a context
                handle = ctypes.c_void_p()
                self._refuse(self._library.lathe_gemm_create(ctypes.byref(handle)))
                self._handles[index] = handle
            return self._handles[index]

    def _refuse(self, status: int) -> None:
        if status != 0:
            reason = self._library.lathe_gemm_last_error() or b""
            raise KernelError(f"lathe_gemm: {reason.decode(errors='replace') or f'error {status}'}")


class PreparedGemm:
    """What Gemm.prepare() gives. Keeps the library and its tensors."""

    def __init__(self, gemm: Gemm, product: ctypes.c_void_p, tensors: "tuple[torch.Tensor, ...]") -> None:
        self._gemm, self._product, self._tensors = gemm, product, tensors
        self._run, self._device = gemm._library.lathe_gemm_run, tensors[0].device.index
        # Half of a call's time would go into making a Stream object.
        self._stream = torch._C._cuda_getCurrentRawStream
        weakref.finalize(self, gemm._library.lathe_gemm_product_destroy, product)

    def __call__(self) -> torch.Tensor:
        """On the current stream of the tensors' device, which must be the current one."""
        status = self._run(self._product, self._stream(self._device))
        if status:
            self._gemm._refuse(status)
        return self._tensors[2]


def _check_product(
    a: torch.Tensor, b: torch.Tensor, c: Optional[torch.Tensor], out: Optional[torch.Tensor]
) -> None:
    for name, one in (("a", a), ("b", b), ("c", c), ("out", out)):
        _check(name, one, a)
    _check_extents(a, b, c, out)
    if out is not None and out.stride(1) != 1:
        raise ValueError("the rows of out are not dense")


def _check_extents(
    a: torch.Tensor, b: torch.Tensor, c: Optional[torch.Tensor], out: Optional[torch.Tensor]
) -> None:
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a is {tuple(a.shape)} and b {tuple(b.shape)}: they do not multiply")
    shape = (a.shape[0], b.shape[1])
    for name, one in (("c", c), ("out", out)):
        if one is not None and tuple(one.shape) != shape:
            raise ValueError(f"{name} is {tuple(one.shape)}, and the product {shape}")


def _arguments(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, alpha: float, beta: float
) -> "tuple[object, ...]":
    """Of lathe_hgemm, from the layout to the accumulator; a and b are dense."""
    a_columns, b_columns = _has_dense_columns(a), _has_dense_columns(b)
    layout = (1 if b_columns else 0) + (2 if a_columns else 0)
    return (
        layout, a.shape[0], b.shape[1], a.shape[1], alpha, a.data_ptr(), a.stride(1 if a_columns else 0),
        b.data_ptr(), b.stride(1 if b_columns else 0), beta, out.data_ptr(), out.stride(0), 0,
    )  # fmt: skip


def _check(name: str, tensor: Optional[torch.Tensor], like: torch.Tensor) -> None:
    if tensor is None:
        return
    if tensor.device.type != "cuda" or tensor.device != like.device:
        raise TypeError(f"{name} is on {tensor.device}, and a on {like.device}: all must be on one GPU")
    _check_form(name, tensor)
    if tensor.requires_grad and torch.is_grad_enabled():
        raise KernelError(f"{name} requires a gradient, and there is none: detach it, or use torch.no_grad()")


def _check_form(name: str, tensor: Optional[torch.Tensor]) -> None:
    if tensor is None:
        return
    if tensor.dtype != torch.float16:
        raise TypeError(f"{name} is {tensor.dtype}, and the kernels take torch.float16")
    if tensor.dim() != 2:
        raise ValueError(f"{name} has {tensor.dim()} dims and is no matrix")


def _has_dense_rows(tensor: torch.Tensor) -> bool:
    return tensor.stride(1) == 1 and tensor.stride(0) >= tensor.shape[1]


def _has_dense_columns(tensor: torch.Tensor) -> bool:
    return not _has_dense_rows(tensor) and tensor.stride(0) == 1 and tensor.stride(1) >= tensor.shape[0]


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if _has_dense_rows(tensor) or _has_dense_columns(tensor) else tensor.contiguous()
