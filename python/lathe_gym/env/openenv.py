"""OpenEnv: an environment server (`/reset`, `/step`, `/ws`) whose actions are answers of a model.

    uvicorn.run(create_app(Client("http://gym:8320")), port=8000)

Over `/ws` a session is an episode. `/step` without a session, as OpenEnv has it, judges one answer to the action's
own task. A mistake of the client's is a status of 400 and its `detail`, or over `/ws` an error with the same words."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Optional

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from openenv.core.env_server.types import EnvironmentMetadata
from pydantic import Field

from ..client import Client, LatheError
from ..records import Scoring, Task
from . import episode as core


class KernelAction(Action):
    answer: str = Field(description="The model's answer: a candidate, or text with one in a fenced block")
    task: Optional[Task] = Field(default=None, description="For a step without a reset: what the answer is for")


class KernelObservation(Observation):
    """`reward` is None after a reset, and where `retry` says that nothing is known of the answer."""

    feedback: str = ""
    retry: bool = False
    outcome: str = ""
    reason: str = ""


class KernelState(State):
    task: Optional[Task] = None
    best: Optional[float] = None


class KernelEnvironment(Environment[KernelAction, KernelObservation, KernelState]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, client: Client, scoring: Scoring, max_turns: int) -> None:
        super().__init__()
        self._client = client
        self._scoring = scoring
        self._max_turns = max_turns
        self._id = ""
        self._episode: Optional[core.Episode] = None

    def reset(
        self,
        seed: Optional[int] = None,
        episode_id: Optional[str] = None,
        task: Optional[Task] = None,
        prompt: Optional[str] = None,
        **_: Any,
    ) -> KernelObservation:
        """`task` as in a submission; without one the service's first. `prompt`: the first observation."""
        chosen = _checked(task) if task is not None else self._first_task()
        if not isinstance(prompt, (str, type(None))):
            raise _mistake("the prompt is no text")
        self._id = episode_id or uuid.uuid4().hex
        self._episode = core.Episode(chosen, self._scoring, self._max_turns, tag=self._id)
        return KernelObservation(feedback=prompt if prompt is not None else core.opening(chosen, self._client))

    def step(self, action: KernelAction, timeout_s: Optional[float] = None, **_: Any) -> KernelObservation:
        if self._episode is None:
            if action.task is None:
                raise _mistake("there is no task: send one with the action, or over /ws reset first")
            self._episode = core.Episode(_checked(action.task), self._scoring, 1)
        elif action.task is not None:
            raise _mistake("an episode's task is chosen by its reset: leave it out of the action")
        elif self._episode.done:
            raise _mistake("the episode is over: reset begins another")
        after = self._episode.step(self._client, action.answer)
        verdict = after.verdict
        return KernelObservation(
            feedback=after.feedback,
            retry=after.retry,
            reward=after.reward,
            done=after.done,
            outcome=verdict.outcome if verdict else "",
            reason=verdict.reason if verdict else "",
        )

    def _first_task(self) -> str:
        names = self._client.tasks()
        if not names:
            raise _mistake('the service has no tasks of its own: reset with one, {"task": {"toml": TEXT}}')
        return min(names)

    @property
    def state(self) -> KernelState:
        episode = self._episode
        return KernelState(
            episode_id=self._id or None,
            step_count=episode.turns if episode else 0,
            task=episode.task if episode else None,
            best=episode.best if episode else None,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name="lathe", description="Compute kernels: verdicts, feedback and rewards from Lathe's gym"
        )


def _mistake(message: str) -> LatheError:
    return LatheError(400, "invalid", message)


def _checked(task: Any) -> Task:
    """What the service says of a task's fields is as clear; this is for what cannot be sent or shown."""
    named = {"name": task} if isinstance(task, str) else task
    if isinstance(named, Mapping) and isinstance(named.get("files") or {}, Mapping):
        texts = [named.get(key) for key in ("toml", "name", "digest")]
        if any(texts) and all(isinstance(text, (str, type(None))) for text in texts):
            return task
    raise _mistake('a task is a name, a digest, {"toml": TEXT}, or of a module {"toml": TEXT, "files": {NAME: TEXT}}')


async def _answer_to_mistake(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, LatheError)
    return JSONResponse({"detail": str(error)}, core.status_for_clients(error))


def create_app(
    client: Client, scoring: Scoring = Scoring(), max_turns: int = 1, max_sessions: int = 256
) -> FastAPI:
    """The client is shared by all sessions and outlives the app."""
    app: FastAPI = create_fastapi_app(
        lambda: KernelEnvironment(client, scoring, max_turns),
        KernelAction,
        KernelObservation,
        max_concurrent_envs=max_sessions,
        env_name="lathe",
        state_cls=KernelState,
    )
    app.add_exception_handler(LatheError, _answer_to_mistake)
    return app
