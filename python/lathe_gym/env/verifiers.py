"""verifiers (v1): a taskset of Lathe's tasks, and the environment that plays them over several turns.

    vf-eval lathe-kernels --env.taskset.tasks softmax_rows --env.max-turns 4

The model is the kernel's author, and the user is the gym: each answer is judged, and the feedback is the next turn.
The episode's reward is the best of its answers'. Where a machine failed the episode is an error and no reward, which
`--env.retries` plays again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union

import verifiers.v1 as vf

from ..client import AsyncClient, Client, LatheError
from ..records import Scoring
from .episode import Episode, opening

TaskField = Union[str, dict[str, Any]]

__all__ = ["KernelEnv", "KernelTaskset"]


class MachineFailed(vf.EnvError):
    """Nothing is known of the answer: retry."""


class TaskFailed(vf.EnvError):
    """No answer to the task can have a reward: a rule of `--env.retries` may leave it out by this name."""


class KernelData(vf.TaskData):
    task: TaskField


class KernelTask(vf.Task[KernelData, vf.State, vf.TaskConfig]):
    pass


class KernelTasksetConfig(vf.TasksetConfig):
    tasks: list[str] = []
    """Names of the service's tasks; empty: all of them."""
    rows: Path | None = None
    """Instead: JSON Lines with `task` as in a submission, and `prompt`."""
    url: str | None = None
    """Of the service; default: LATHE_URL, else this machine."""


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    def load(self) -> Iterator[KernelTask]:
        with Client(self.config.url) as client:
            for row in self._rows(client):
                task = row["task"]
                prompt = row.get("prompt") or opening(task, client)
                data = KernelData(name=str(row.get("name", "")) or None, prompt=prompt, task=task)
                yield KernelTask(data, self.config.task)

    def _rows(self, client: Client) -> list[dict[str, Any]]:
        if self.config.rows is not None:
            return [json.loads(line) for line in self.config.rows.read_text().splitlines() if line.strip()]
        names = list(self.config.tasks) or sorted(client.tasks())
        return [{"task": name, "name": name} for name in names]


class KernelEnvConfig(vf.EnvConfig):
    author: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    url: str | None = None
    reward: str = "speedup"
    peer: str = ""
    depth: str = "screen"
    max_turns: int = 1


class KernelEnv(vf.Env[KernelEnvConfig]):
    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        config = self.config
        episode = Episode(task.data.task, Scoring(config.reward, config.peer, config.depth), config.max_turns)
        async with AsyncClient(config.url) as client, agents.author.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                try:
                    after = await episode.step_async(client, segment.last_reply)
                except LatheError as error:
                    raise TaskFailed(str(error)) if error.status == 400 else error
                if after.retry:
                    raise MachineFailed(f"retry: {after.feedback}")
                if after.done:
                    break
                segment = await interaction.turn(after.feedback)
        if episode.best is None:
            return
        trace = interaction.trace
        trace.record_reward(f"lathe_{config.reward}", episode.best, 1.0)
        for turn, observation in enumerate(episode.history, 1):
            trace.record_metric(f"turn_{turn}", observation.reward)
        trace.record_metric("passed", float(any(one.verdict and one.verdict.passed for one in episode.history)))
