"""verl: a reward function that it loads by name.

    reward.custom_reward_function.path=pkg://lathe_gym.env.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.reward=speedup

Each row's `extra_info` has the field `task`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping, Optional

from ..client import AsyncClient
from ..records import Scoring, Submission


class MachineFailed(RuntimeError):
    """Nothing is known of an answer, however often its machine was asked: verl has no reward for that."""


@lru_cache(maxsize=None)
def _client(url: Optional[str]) -> AsyncClient:
    return AsyncClient(url)


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any],
    *,
    url: Optional[str] = None,
    reward: str = "speedup",
    peer: str = "",
    depth: str = "screen",
    tries: int = 20,
    **_: Any,
) -> dict[str, Any]:
    """The reward as `score`, with what verl logs beside it. `url` defaults to LATHE_URL, else this machine. One event
    loop may call it. Raises MachineFailed where there is no reward after `tries`."""
    answer = Submission(extra_info["task"], solution_str, is_answer=True)
    (graded,) = await _client(url).grade([answer], Scoring(reward, peer, depth), tries=tries)
    verdict = graded.evaluation.verdict
    if graded.reward is None or verdict is None:
        raise MachineFailed(graded.feedback)
    return {"score": graded.reward, "passed": float(verdict.passed), "outcome": verdict.outcome}
