"""The library of `lathe gemm export` as a matrix product of CUDA tensors. No test covers it yet: that takes a
GPU with PyTorch."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Optional

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
        for name, one in (("a", a), ("b", b), ("c", c), ("out", out)):
            _check(name, one, a)
        if a.shape[1] != b.shape[0]:
            raise ValueError(f"a is {tuple(a.shape)} and b {tuple(b.shape)}: they do not multiply")
        (m, k), n = a.shape, b.shape[1]
        if beta != 0 and c is None:
            raise TypeError("beta is given and c is not")
        for name, one in (("c", c), ("out", out)):
            if one is not None and tuple(one.shape) != (m, n):
                raise ValueError(f"{name} is {tuple(one.shape)}, and the product {(m, n)}")
        if out is None:
            out = torch.empty((m, n), dtype=a.dtype, device=a.device)
        elif out.stride(1) != 1:
            raise ValueError("the rows of out are not dense")
        if beta != 0 and c is not None and c is not out:
            out.copy_(c)
        (a, a_is_columns), (b, b_is_columns) = _laid_out(a), _laid_out(b)
        layout = (1 if b_is_columns else 0) + (2 if a_is_columns else 0)
        with torch.cuda.device(a.device):
            status = self._library.lathe_hgemm(
                self._handle(a.device), layout, m, n, k, alpha, a.data_ptr(), a.stride(1 if a_is_columns else 0),
                b.data_ptr(), b.stride(1 if b_is_columns else 0), beta, out.data_ptr(), out.stride(0), 0,
                torch.cuda.current_stream(a.device).cuda_stream,
            )  # fmt: skip
        self._refuse(status)
        return out

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


def _check(name: str, tensor: Optional[torch.Tensor], like: torch.Tensor) -> None:
    if tensor is None:
        return
    if tensor.device.type != "cuda" or tensor.device != like.device:
        raise TypeError(f"{name} is on {tensor.device}, and a on {like.device}: all must be on one GPU")
    if tensor.dtype != torch.float16:
        raise TypeError(f"{name} is {tensor.dtype}, and the kernels take torch.float16")
    if tensor.dim() != 2:
        raise ValueError(f"{name} has {tensor.dim()} dims and is no matrix")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise KernelError(f"{name} requires a gradient, and there is none: detach it, or use torch.no_grad()")


def _laid_out(tensor: torch.Tensor) -> "tuple[torch.Tensor, bool]":
    """With dense rows, or (True) dense columns."""
    rows, columns = tensor.stride()
    if columns == 1 and rows >= tensor.shape[1]:
        return tensor, False
    if rows == 1 and columns >= tensor.shape[0]:
        return tensor, True
    return tensor.contiguous(), False
