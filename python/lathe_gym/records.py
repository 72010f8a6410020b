"""What goes to a Lathe service and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Mapping, Optional, Union

Task = Union[str, Mapping[str, Any]]
"""A task's name or digest, {"toml": TEXT}, or of a PyTorch module {"toml": TEXT, "files": {NAME: TEXT}}."""

Outcome = Literal["PASS", "BUILD_FAILED", "WRONG", "CRASH", "TIMEOUT", "TAMPERED", "SUSPECT", "INFRA"]
"""INFRA: the machine failed, which says nothing about the candidate."""

State = Literal["queued", "running", "done", "failed", "cancelled", "expired", "refused"]
"""Of an evaluation. `failed`: there is none, as the task cannot be prepared or the gym was updated meanwhile; `refused`:
the service did not take it, so it has no id."""


def _without_nulls(node: Any) -> Any:
    """Tables of data sets give each row the keys of all others."""
    if not isinstance(node, Mapping):
        return node
    return {key: _without_nulls(value) for key, value in node.items() if value is not None}


OUTDATED = "the gym has been updated since: submit it again"
"""The error of what an older version of the gym was asked."""

FINAL_STATES: frozenset[State] = frozenset({"done", "failed", "cancelled", "expired", "refused"})


@dataclass(frozen=True)
class TaskText:
    """A task that the service knows by name."""

    name: str
    digest: str
    toml: str
    files: Mapping[str, str] = field(default_factory=dict)
    """Of a PyTorch module its source."""

    @staticmethod
    def from_json(node: Mapping[str, Any]) -> "TaskText":
        return TaskText(node["name"], node["digest"], node["toml"], node.get("files", {}))

    def to_json(self) -> dict[str, Any]:
        """A submission's task."""
        return {"toml": self.toml, **({"files": dict(self.files)} if self.files else {})}


@dataclass(frozen=True)
class Submission:
    """A candidate to judge. The same task, candidate and depth are the same evaluation, however often they are sent."""

    task: Task
    candidate: str
    depth: str = "screen"
    """"build", "verify", "screen", "final" or "profile"."""
    priority: int = 0
    deadline_seconds: float = 0
    """From the submission; 0: none."""
    tag: str = ""
    """Comes back with the answer."""
    is_answer: bool = False
    """`candidate` is what a language model said, and the candidate is in it: the last fenced block that has front
    matter."""

    def to_json(self) -> dict[str, Any]:
        text = "answer" if self.is_answer else "candidate"
        body: dict[str, Any] = {"task": _without_nulls(self.task), text: self.candidate, "depth": self.depth}
        if self.priority:
            body["priority"] = self.priority
        if self.deadline_seconds:
            body["deadline_seconds"] = self.deadline_seconds
        if self.tag:
            body["tag"] = self.tag
        return body


@dataclass(frozen=True)
class Interval:
    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    reason: str
    detail: str = ""
    median_ns: Optional[float] = None
    """Of a call; None where it was not timed."""
    speedups: Mapping[str, Interval] = field(default_factory=dict)
    """Over each baseline; a reward is rightly a function of the lower bound."""

    @property
    def passed(self) -> bool:
        return self.outcome == "PASS"

    @property
    def machine_failed(self) -> bool:
        """It says nothing about the candidate: ask again, and never make a number of it."""
        return self.outcome == "INFRA"

    @staticmethod
    def from_json(node: Mapping[str, Any]) -> "Verdict":
        return Verdict(
            outcome=node["outcome"],
            reason=node["reason"],
            detail=node.get("detail", ""),
            median_ns=node.get("median_ns"),
            speedups={
                name: Interval(each["low"], each["mid"], each["high"]) for name, each in node.get("speedups", {}).items()
            },
        )


@dataclass(frozen=True)
class Evaluation:
    """What became of a submission."""

    id: str
    state: State
    verdict: Optional[Verdict] = None
    """Of those that are done, and of those refused for a candidate that is too long or no text: BUILD_FAILED."""
    error: str = ""
    tag: str = ""
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the service said."""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def is_open(self) -> bool:
        """It has ended and says nothing of task or candidate: ask again."""
        if self.verdict is not None:
            return self.verdict.machine_failed
        return self.state in ("cancelled", "expired") or (self.state == "failed" and self.error == OUTDATED)

    @staticmethod
    def from_json(node: Mapping[str, Any]) -> "Evaluation":
        verdict = node.get("verdict")
        return Evaluation(
            id=node["id"],
            state=node["state"],
            verdict=Verdict.from_json(verdict) if verdict else None,
            error=node.get("error", ""),
            tag=node.get("tag", ""),
            document=node,
        )


@dataclass(frozen=True)
class Scoring:
    """How verdicts become rewards. The service computes them, by the functions that Lathe itself trains with."""

    reward: str = "speedup"
    """"correct", "speedup", "log_speedup", "roofline", "fast_1", "fast_1.2", "fast_1.5", "fast_2", "cuda_l2",
    "dr_kernel" or "dr_kernel_profiled" (which needs the depth "profile")."""
    peer: str = ""
    """The baseline that the speedup is over; empty: of the rewards over every baseline the smallest."""
    depth: str = "screen"


@dataclass(frozen=True)
class Graded:
    """An answer, what to tell the kernel's author, and the reward."""

    evaluation: Evaluation
    feedback: str
    reward: Optional[float]
    """None: nothing is known (`retry`), or there is none and never will be, as the task cannot be prepared or has no
    such peer: the feedback says why."""

    @property
    def retry(self) -> bool:
        """The machine failed, or the evaluation was ended early: no reward, not a reward of 0."""
        return self.reward is None and self.evaluation.is_open
