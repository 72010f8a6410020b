"""NeMo Gym: a resources server (`/seed_session`, `/verify`, `/aggregate_metrics`) and a tool.

`app.py` of a resources server is two lines:

    from lathe_gym.env.nemo_gym import KernelResourcesServer
    KernelResourcesServer.run_webserver()

Rows of the data set have the field `task`. With `max_turns` above 1 agents may call the tool `submit_kernel`, whose
answer is the feedback; `/verify` judges the candidate of the last message, if it has one, and the reward is the best
of the session. A machine that failed is no reward: `/verify` answers 503, and may be asked again."""

from __future__ import annotations

from typing import Any, Optional, Union

from fastapi import FastAPI, HTTPException, Request
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import SESSION_ID_KEY
from pydantic import BaseModel, PrivateAttr

from ..client import AsyncClient, LatheError
from ..records import Scoring
from .episode import Episode, Observation, status_for_clients

TaskField = Union[str, dict[str, Any]]


class KernelServerConfig(BaseResourcesServerConfig):
    lathe_url: Optional[str] = None
    """Default: LATHE_URL, else this machine. The token is LATHE_TOKEN's."""
    reward: str = "speedup"
    peer: str = ""
    depth: str = "screen"
    max_turns: int = 1


class KernelSeedRequest(BaseSeedSessionRequest):
    task: TaskField


class KernelVerifyRequest(BaseVerifyRequest):
    task: TaskField


class KernelVerifyResponse(BaseVerifyResponse):
    task: TaskField
    outcome: str
    reason: str
    passed: bool
    turns: int


class SubmitKernelRequest(BaseModel):
    candidate: str


class SubmitKernelResponse(BaseModel):
    feedback: str
    reward: Optional[float]
    retry: bool
    done: bool


class KernelResourcesServer(SimpleResourcesServer):
    ray_enabled = False
    config: KernelServerConfig
    _episodes: dict[str, Episode] = PrivateAttr(default_factory=dict)
    _client: Optional[AsyncClient] = PrivateAttr(default=None)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/submit_kernel")(self.submit_kernel)
        return app

    async def seed_session(
        self, request: Request, body: KernelSeedRequest
    ) -> BaseSeedSessionResponse:
        self._episodes[request.session[SESSION_ID_KEY]] = self._new_episode(body.task)
        return BaseSeedSessionResponse()

    async def submit_kernel(self, request: Request, body: SubmitKernelRequest) -> SubmitKernelResponse:
        episode = self._episodes.get(request.session[SESSION_ID_KEY])
        if episode is None:
            raise HTTPException(409, "the session has not been seeded")
        if episode.done:
            return SubmitKernelResponse(feedback="No submissions are left.", reward=None, retry=False, done=True)
        after = await self._step(episode, body.candidate)
        return SubmitKernelResponse(feedback=after.feedback, reward=after.reward, retry=after.retry, done=after.done)

    async def verify(
        self, request: Request, body: KernelVerifyRequest
    ) -> KernelVerifyResponse:
        session = request.session[SESSION_ID_KEY]
        episode = self._episodes.get(session) or self._new_episode(body.task)
        answer = body.response.output_text
        if not episode.done and ("```" in answer or not episode.history):
            after = await self._step(episode, answer)
            if after.retry:
                raise HTTPException(503, f"retry: {after.feedback}", headers={"Retry-After": "5"})
        self._episodes.pop(session, None)
        best = max(episode.history, key=_reward_of)
        assert best.reward is not None and best.verdict is not None
        return KernelVerifyResponse(
            **body.model_dump(),
            reward=best.reward,
            outcome=best.verdict.outcome,
            reason=best.verdict.reason,
            passed=best.verdict.passed,
            turns=episode.turns,
        )

    async def _step(self, episode: Episode, answer: str) -> Observation:
        try:
            return await episode.step_async(self._lathe(), answer)
        except LatheError as error:
            raise HTTPException(status_for_clients(error), str(error)) from None

    def _new_episode(self, task: TaskField) -> Episode:
        scoring = Scoring(self.config.reward, self.config.peer, self.config.depth)
        return Episode(task, scoring, self.config.max_turns)

    def _lathe(self) -> AsyncClient:
        if self._client is None:
            self._client = AsyncClient(self.config.lathe_url)
        return self._client


def _reward_of(observation: Observation) -> float:
    return observation.reward if observation.reward is not None else float("-inf")
