"""A conversation about one task: what every environment here is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from ..client import AsyncClient, Client, LatheError
from ..records import Graded, Scoring, Submission, Task, Verdict

@dataclass(frozen=True)
class Observation:
    """What follows an answer."""

    feedback: str
    reward: Optional[float]
    """Of this answer; None: nothing is known."""
    done: bool
    verdict: Optional[Verdict]

    @property
    def retry(self) -> bool:
        """The machine failed: the same answer may be given again, and the turn does not count."""
        return self.reward is None


@dataclass
class Episode:
    """Of `max_turns` answers each may improve on the last: the observation is the feedback of its verdict. It ends
    after the last one, or at the first whose reward is `good_enough`. Both steps raise LatheError where no answer can
    have a reward, as for a task that the service does not know or cannot prepare."""

    task: Task
    scoring: Scoring = Scoring()
    max_turns: int = 1
    good_enough: Optional[float] = None
    tag: str = ""
    history: list[Observation] = field(default_factory=list)
    """Of the answers that count."""
    done: bool = False

    def step(self, client: Client, answer: str) -> Observation:
        (graded,) = client.grade([self._submission(answer)], self.scoring)
        return self._after(graded)

    async def step_async(self, client: AsyncClient, answer: str) -> Observation:
        (graded,) = await client.grade([self._submission(answer)], self.scoring)
        return self._after(graded)

    @property
    def turns(self) -> int:
        return len(self.history)

    @property
    def best(self) -> Optional[float]:
        """The largest reward so far."""
        return max((one.reward for one in self.history if one.reward is not None), default=None)

    def _submission(self, answer: str) -> Submission:
        if self.done:
            raise ValueError("the episode is over")
        return Submission(self.task, answer, tag=self.tag, is_answer=True)

    def _after(self, graded: Graded) -> Observation:
        verdict = graded.evaluation.verdict
        if graded.retry:
            return Observation(graded.feedback, None, False, verdict)
        reward = reward_of(graded)
        good = self.good_enough is not None and reward >= self.good_enough
        self.done = good or self.turns + 1 >= self.max_turns
        observation = Observation(graded.feedback, reward, self.done, verdict)
        self.history.append(observation)
        return observation


def reward_of(graded: Graded) -> float:
    """Raises LatheError where there is none and asking again is no use, for then no answer to the task has one."""
    if graded.reward is not None:
        return graded.reward
    evaluation = graded.evaluation
    if evaluation.state == "failed":
        raise LatheError(400, "task_failed", graded.feedback)
    refused = evaluation.state == "refused" and evaluation.verdict is None
    raise LatheError(400, "invalid", evaluation.error if refused else graded.feedback)


def status_for_clients(error: LatheError) -> int:
    """Of an HTTP answer to an environment's own client, who has no part in tokens and connections to the service."""
    if error.status in (400, 404, 413):
        return error.status
    return 503 if error.status in (0, 429, 503) else 502


def opening(task: Task, client: Optional[Client] = None) -> str:
    """The first message of a conversation for which there is no better prompt. The text of a task that is given by its
    name or digest the client asks the service for. Lathe's own prompts, with the device and the format explained, are
    in the data sets that `lathe data` writes."""
    name = _name_of(task)
    if client is None or not name:
        return _opening(task)
    try:
        return _opening(client.task(name).to_json())
    except LatheError as error:
        return _opening_without_text(task, error)


async def opening_async(task: Task, client: AsyncClient) -> str:
    """As opening."""
    name = _name_of(task)
    if not name:
        return _opening(task)
    try:
        return _opening((await client.task(name)).to_json())
    except LatheError as error:
        return _opening_without_text(task, error)


def _name_of(task: Task) -> str:
    """Or its digest."""
    return task if isinstance(task, str) else task.get("name") or task.get("digest") or ""


def _opening_without_text(task: Task, error: LatheError) -> str:
    """Services of before tell no texts, nor does any that of a task which was sent to it."""
    if error.status != 404:
        raise error
    return _opening(task)


def _opening(task: Task) -> str:
    fields: dict[str, Any] = {"name": task} if isinstance(task, str) else {key: value for key, value in task.items() if value}
    modules: dict[str, str] = fields.get("files", {})
    what = f"Lathe's task {next(iter(fields.values()))}."
    if "toml" in fields:
        blocks = [f"this task of Lathe:\n\n```toml\n{fields['toml'].strip()}\n```"]
        blocks += [f"`{name}` is:\n\n```python\n{text.strip()}\n```" for name, text in modules.items() if text]
        what = "\n\n".join(blocks)
    mark = '"""lathe' if modules else "/*lathe"
    how = f"Answer with the candidate, its {mark} front matter included, in one fenced block."
    return f"Write a fast kernel for {what}\n\n{how}"
