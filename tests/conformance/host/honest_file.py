"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
"""A file as people write them, put behind the front matter as it was."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import subprocess
import warnings
from dataclasses import dataclass

import torch

libm = ctypes.CDLL(ctypes.util.find_library("m"))
try:
    PROCESSORS = int(subprocess.check_output(["nproc"]))
except Exception:
    PROCESSORS = os.cpu_count() or 1
warnings.warn("imported on %d processors" % PROCESSORS)


@dataclass(frozen=True)
class Options:
    dim: int = -1


@functools.lru_cache(maxsize=None)
def options_for(shape: tuple[int, ...]) -> Options:
    print("first call at", shape, flush=True)
    return Options()


class ModelNew(torch.nn.Module):
    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, options_for(tuple(x.shape)).dim)


if __name__ == "__main__":
    print(ModelNew()(torch.randn(3, 4)))
