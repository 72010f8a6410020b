"""Verdicts on compute kernels from a Lathe service, and the service itself where the wheel carries it."""

from .client import AsyncClient, Client, LatheError
from .records import Evaluation, Graded, Interval, Scoring, Submission, Verdict
from .service import LocalService, program

__all__ = [
    "AsyncClient",
    "Client",
    "Evaluation",
    "Graded",
    "Interval",
    "LatheError",
    "LocalService",
    "Scoring",
    "Submission",
    "Verdict",
    "program",
]
__version__ = "0.1.0"
