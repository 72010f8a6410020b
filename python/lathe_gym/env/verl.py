"""verl: a reward function that it loads by name.

    reward.custom_reward_function.path=pkg://lathe_gym.env.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.reward=speedup

Each row's `extra_info` has the field `task`."""

from __future__ import annotations

import asyncio
from typing import Any, Mapping, Optional
from weakref import WeakKeyDictionary

from ..client import AsyncClient
from ..records import Scoring, Submission
from .episode import reward_of


class MachineFailed(RuntimeError):
    """Nothing is known of an answer, however often its machine was asked: verl has no reward for that."""


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Optional[str], AsyncClient]] = WeakKeyDictionary()


def _client(url: Optional[str]) -> AsyncClient:
    """Connections belong to the event loop that opened them."""
    of_loop = _clients.setdefault(asyncio.get_running_loop(), {})
    if url not in of_loop:
        of_loop[url] = AsyncClient(url)
    return of_loop[url]


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
    """The reward as `score`, with what verl logs beside it. `url` defaults to LATHE_URL, else this machine. Raises
    MachineFailed where there is no reward after `tries`, and LatheError where no answer to the task can have one."""
    answer = Submission(extra_info["task"], solution_str, is_answer=True)
    (graded,) = await _client(url).grade([answer], Scoring(reward, peer, depth), tries=tries)
    if graded.retry:
        raise MachineFailed(graded.feedback)
    score, verdict = reward_of(graded), graded.evaluation.verdict
    assert verdict is not None
    return {"score": score, "passed": float(verdict.passed), "outcome": verdict.outcome}
