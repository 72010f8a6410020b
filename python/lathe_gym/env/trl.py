"""TRL: a reward function for `GRPOTrainer` and its kin."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..client import Client
from ..records import Scoring, Submission, Task

Completion = Union[str, Sequence[Mapping[str, Any]]]
RewardFunction = Callable[..., "list[Optional[float]]"]


def reward_function(client: Client, scoring: Scoring = Scoring(), task: Optional[Task] = None) -> RewardFunction:
    """Rewards for a batch of completions; its `task` is the data set's column `task`, or the same for all.

    A completion about which nothing is known, as its machine failed, has None: TRL leaves it out. So has one of a task
    that is not known or cannot be prepared, and a warning says why. The share of each outcome is logged as
    `lathe/OUTCOME`."""

    def reward(
        completions: Sequence[Completion], log_metric: Optional[Callable[[str, float], None]] = None, **columns: Any
    ) -> list[Optional[float]]:
        if task is None and "task" not in columns:
            raise ValueError("name the task of the completions: by the data set's column `task`, or reward_function(task=)")
        tasks = [task] * len(completions) if task is not None else columns["task"]
        graded = client.grade(
            [Submission(of, _text(completion), is_answer=True) for of, completion in zip(tasks, completions)], scoring
        )
        for one in graded:
            if one.reward is None and not one.retry:
                warnings.warn(one.feedback, RuntimeWarning, stacklevel=2)
        if log_metric:
            outcomes = Counter(one.evaluation.verdict.outcome if one.evaluation.verdict else "none" for one in graded)
            for outcome, count in outcomes.items():
                log_metric(f"lathe/{outcome}", count / len(graded))
        return [one.reward for one in graded]

    reward.__name__ = f"lathe_{scoring.reward}"
    return reward


def _text(completion: Completion) -> str:
    """A conversation's answer is its last message, which may be in parts."""
    content = completion if isinstance(completion, str) else completion[-1].get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)
