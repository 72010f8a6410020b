"""Verdicts on compute kernels from a Lathe service, and the service itself where the wheel carries it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Union

from .client import AsyncClient, Client, LatheError
from .progress import ProgressBar
from .records import Evaluation, Graded, Interval, Scoring, Submission, TaskText, Verdict
from .service import LocalService, program

if TYPE_CHECKING:
    from .gemm import Gemm
    from .kernel import Kernel

__all__ = [
    "AsyncClient",
    "Client",
    "Evaluation",
    "Graded",
    "Interval",
    "LatheError",
    "LocalService",
    "ProgressBar",
    "Scoring",
    "Submission",
    "TaskText",
    "Verdict",
    "load",
    "program",
]
__version__ = "0.1.0"


def load(package: Union[str, "os.PathLike[str]"]) -> Union[Kernel, Gemm]:
    """An exported kernel as a function of PyTorch tensors (lathe_gym.kernel.load). Needs PyTorch."""
    from .kernel import load

    return load(package)
