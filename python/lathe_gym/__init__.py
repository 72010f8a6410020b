"""Verdicts on compute kernels from a Lathe service, and the service itself where the wheel carries it."""

from .client import AsyncClient, Client, LatheError
from .records import Evaluation, Interval, Submission, Verdict
from .service import LocalService, program

__all__ = [
    "AsyncClient",
    "Client",
    "Evaluation",
    "Interval",
    "LatheError",
    "LocalService",
    "Submission",
    "Verdict",
    "program",
]
__version__ = "0.1.0"
