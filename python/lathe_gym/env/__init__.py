"""Environments for trainers over a running Lathe service. Each adapter is a module here that needs its
trainer's package: `trl`, `verifiers`, `openenv`, `nemo_gym`, `verl`; what they share needs none."""

from ..records import Scoring
from .episode import Episode, Observation, opening, opening_async

__all__ = ["Episode", "Observation", "Scoring", "opening", "opening_async"]
