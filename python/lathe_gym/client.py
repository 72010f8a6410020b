"""Clients of a Lathe service. Both run the same exchanges, one blocking, one not."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Generator, Mapping, Optional, Sequence, TypeVar, Union
from urllib.parse import quote

import httpx

from .progress import ProgressBar
from .records import OUTDATED, Evaluation, Graded, Scoring, Submission, Task, TaskText, Verdict

DEFAULT_URL = "http://127.0.0.1:8320"
_LONGEST_WAIT_SECONDS = 50  # a long poll's; the service allows 60
_LARGEST_BATCH = 1024
_LARGEST_BODY = 12 << 20  # the service takes 16 MiB
_LARGEST_CANDIDATE = 1 << 20
_BAD_CANDIDATE = "bad_candidate"  # the reason of a verdict on a text that is no candidate
_UNPREPARED = "the task could not be prepared"  # said where the machine was at fault, else the task's own fault is
_TRANSIENT = frozenset({429, 502, 503, 504})
_OF_ONE = frozenset({400, 404, 500})  # what is asked of one evaluation may fail so where others do not

Progress = Union[Callable[[int, int], None], bool, None]
"""Called with how many evaluations are done, and of how many; True is a bar on standard error."""

Value = TypeVar("Value")


class LatheError(Exception):
    """What the service refused, or that it was not there: `status` is 0 then."""

    def __init__(self, status: int, code: str, message: str, request_id: str = "") -> None:
        super().__init__(f"{message} ({code}{f', request {request_id}' if request_id else ''})")
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id

    def __reduce__(self) -> tuple[Any, ...]:
        """Trainers' processes send it to one another."""
        return type(self), (self.status, self.code, self.message, self.request_id)


@dataclass(frozen=True)
class _Call:
    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Optional[Mapping[str, Any]] = None


Exchange = Generator[_Call, dict[str, Any], Value]
"""Yields calls, is sent their answers, and returns a value: it neither blocks nor awaits."""


def _call(
    method: str, path: str, query: Mapping[str, Any] = {}, body: Optional[Mapping[str, Any]] = None
) -> Exchange[dict[str, Any]]:
    return (yield _Call(method, path, query, body))


def _read(what: Callable[[Any], Value], answer: Any) -> Value:
    """What another server says in JSON is an error about the server."""
    try:
        return what(answer)
    except (KeyError, TypeError, AttributeError) as error:
        raise LatheError(200, "answer", "the answer is none of a Lathe service: is the URL right?") from error


def _items(answer: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [dict(item) for item in answer["items"]]
    if len(items) != count:
        raise KeyError("as many items as were sent")
    return items


def _batches(submissions: Sequence[Submission]) -> Generator[list[dict[str, Any]], None, None]:
    batch: list[dict[str, Any]] = []
    size = 0
    for submission in submissions:
        item = submission.to_json()
        bytes_of_item = len(json.dumps(item)) + 2  # no less than httpx makes of it
        if batch and (len(batch) == _LARGEST_BATCH or size + bytes_of_item > _LARGEST_BODY):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += bytes_of_item
    if batch:
        yield batch


def _objection(submission: Submission) -> Optional[LatheError]:
    """To what no request can carry, or the service would refuse the whole batch for."""
    if not isinstance(submission.candidate, str):
        return LatheError(400, "invalid", f"the candidate is no text, but {submission.candidate!r:.40}")
    try:
        size = len(submission.candidate.encode())
    except UnicodeEncodeError:
        return LatheError(400, _BAD_CANDIDATE, "the candidate has lone surrogates, so it is no text in UTF-8")
    most = _LARGEST_CANDIDATE
    if submission.is_answer:  # as JSON has it; of the candidate in it the service reads what it takes of one
        size, most = len(json.dumps(submission.candidate, ensure_ascii=False).encode()), _LARGEST_BODY // 2
    if size > most:
        return LatheError(400, _BAD_CANDIDATE, f"the candidate is longer than {most} bytes")
    try:
        size = len(json.dumps(submission.to_json(), ensure_ascii=False, allow_nan=False).encode())
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        return LatheError(400, "invalid", f"the submission is no JSON: {error}")
    if size > _LARGEST_BODY:
        return LatheError(400, "invalid", f"the submission is longer than {_LARGEST_BODY} bytes")
    return None


_Taken = Union[str, LatheError]
"""An id, or why the service did not take a submission."""


def _submit_each(submissions: Sequence[Submission], query: Mapping[str, str] = {}) -> Exchange[list[_Taken]]:
    """`query`: a reward or a peer that no service has is refused before anything is submitted."""
    taken: list[_Taken] = [_objection(submission) or "" for submission in submissions]
    sent = [i for i, one in enumerate(taken) if one == ""]
    for batch in _batches([submissions[i] for i in sent]):
        places, sent = sent[: len(batch)], sent[len(batch) :]
        missing = list(zip(places, batch))
        while missing:
            answer = yield _Call("POST", "/v1/evaluations/batch", query, {"items": [item for _, item in missing]})
            receipts = _read(lambda answer: _items(answer, len(missing)), answer)
            busy = []
            for (place, item), receipt in zip(missing, receipts):
                error = receipt.get("error")
                if error is None:
                    taken[place] = receipt["id"]
                elif error["code"] == "busy":
                    busy.append((place, item))
                else:
                    taken[place] = LatheError(400, error["code"], error["message"])
            if len(busy) == len(missing):
                raise LatheError(429, "busy", receipts[0]["error"]["message"])
            missing = busy
    return taken


def _submit(submissions: Sequence[Submission]) -> Exchange[list[str]]:
    ids: list[str] = []
    for i, one in enumerate((yield from _submit_each(submissions))):
        if isinstance(one, LatheError):
            raise LatheError(one.status, one.code, f"submission {i}: {one.message}")
        ids.append(one)
    return ids


def _refused(submission: Submission, error: LatheError) -> Evaluation:
    """What was not taken has no id. A text that is no candidate is a verdict on its author."""
    bad = error.code == _BAD_CANDIDATE
    verdict = Verdict("BUILD_FAILED", _BAD_CANDIDATE, error.message) if bad else None
    return Evaluation("", "refused", verdict, error.message, submission.tag)


def _checked(id: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", id):
        raise ValueError(f"{id[:80]!r} is no evaluation's id: submit() gives them, 64 hexadecimal digits each")
    return id


def _wait_for(id: str, seconds: Optional[float]) -> Exchange[Evaluation]:
    return (yield from _wait(_checked(id), seconds))


def _evidence(id: str) -> Exchange[dict[str, Any]]:
    return (yield from _call("GET", f"/v1/evaluations/{_checked(id)}/evidence"))


def _cancel(id: str) -> Exchange[Evaluation]:
    return _read(Evaluation.from_json, (yield from _call("DELETE", f"/v1/evaluations/{_checked(id)}")))


def _task(name: str) -> Exchange[TaskText]:
    return _read(TaskText.from_json, (yield from _call("GET", f"/v1/tasks/{quote(name, safe='')}")))


def _tasks() -> Exchange[dict[str, str]]:
    answer = yield from _call("GET", "/v1/tasks")
    return _read(lambda answer: {item["name"]: item["digest"] for item in answer["items"]}, answer)


def _wait(id: str, seconds: Optional[float]) -> Exchange[Evaluation]:
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left = _LONGEST_WAIT_SECONDS if end is None else max(0.0, end - time.monotonic())
        answer = yield _Call("GET", f"/v1/evaluations/{id}", {"wait": min(left, _LONGEST_WAIT_SECONDS)})
        evaluation = _read(Evaluation.from_json, answer)
        if evaluation.is_final or left <= _LONGEST_WAIT_SECONDS and end is not None:
            return evaluation


def _evaluate(
    submissions: Sequence[Submission], tries: int, progress: Progress, query: Mapping[str, str] = {}
) -> Exchange[list[Evaluation]]:
    bar = ProgressBar() if progress is True else None
    tell = bar if progress is True else progress
    try:
        all_taken = yield from _submit_each(submissions, query)
        done: list[Evaluation] = []
        for submission, taken in zip(submissions, all_taken):
            done.append((yield from _answer_to(submission, taken, tries)))
            if tell:
                tell(len(done), len(submissions))
        return done
    finally:
        if bar:
            bar.close()


def _answer_to(submission: Submission, taken: _Taken, tries: int) -> Exchange[Evaluation]:
    if isinstance(taken, LatheError):
        return _refused(submission, taken)
    try:
        evaluation = yield from _wait(taken, None)
        for _ in range(tries - 1):
            if not _may_end_otherwise(evaluation):
                break
            (id,) = yield from _submit([submission])
            evaluation = yield from _wait(id, None)
    except LatheError as error:
        if error.status not in _OF_ONE:
            raise
        return _refused(submission, error)
    # Two submissions of one evaluation share an id; each keeps its tag.
    return replace(evaluation, tag=submission.tag)


def _may_end_otherwise(evaluation: Evaluation) -> bool:
    """Unlike what a client has cancelled or given a deadline."""
    if evaluation.verdict is not None:
        return evaluation.verdict.machine_failed
    return evaluation.error in (OUTDATED, _UNPREPARED)


def _evaluate_one(submission: Submission, tries: int) -> Exchange[Evaluation]:
    (evaluation,) = yield from _evaluate([submission], tries, None)
    if evaluation.state == "refused" and evaluation.verdict is None:
        raise LatheError(400, "invalid", evaluation.error)
    return evaluation


_WITHOUT_VERDICT = {
    "failed": "The task could not be prepared",
    "cancelled": "The evaluation was cancelled",
    "expired": "The evaluation was not done before its deadline",
    "refused": "The service did not take the submission",
}


def _why_no_verdict(evaluation: Evaluation) -> str:
    if evaluation.error in (OUTDATED, _UNPREPARED):
        return f"There is no verdict: {evaluation.error}."
    what = _WITHOUT_VERDICT.get(evaluation.state, "There is no verdict")
    return f"{what}: {evaluation.error}" if evaluation.error else f"{what}."


def _grade(
    submissions: Sequence[Submission], scoring: Scoring, tries: int, progress: Progress
) -> Exchange[list[Graded]]:
    query = {"reward": scoring.reward, **({"peer": scoring.peer} if scoring.peer else {})}
    evaluations = yield from _evaluate(
        [replace(submission, depth=scoring.depth) for submission in submissions], tries, progress, query
    )
    documents: dict[str, Union[dict[str, Any], LatheError]] = {}
    for evaluation in evaluations:
        if evaluation.verdict is not None and evaluation.state != "refused" and evaluation.id not in documents:
            documents[evaluation.id] = yield from _evidence_of_one(evaluation.id, query)
    without_reward = _tasks_without_reward(evaluations, documents)
    graded: list[Graded] = []
    for evaluation in evaluations:
        if evaluation.verdict is None:
            graded.append(Graded(evaluation, _why_no_verdict(evaluation), None))
            continue
        if evaluation.state == "refused":
            # Every reward of a candidate that cannot be built is 0.
            graded.append(Graded(evaluation, f"The candidate was not read: {evaluation.error}.", 0.0))
            continue
        document = documents[evaluation.id]
        if isinstance(document, LatheError):
            graded.append(Graded(evaluation, f"There is no reward: {document.message}.", None))
            continue
        feedback, reward = document.get("feedback", ""), document.get("reward")
        missing = without_reward.get(evaluation.document.get("task"))
        if missing:
            feedback, reward = f"There is no reward: {missing}.\n{feedback}", None
        graded.append(Graded(evaluation, feedback, None if reward is None else float(reward)))
    return graded


def _evidence_of_one(id: str, query: Mapping[str, str]) -> Exchange[Union[dict[str, Any], LatheError]]:
    try:
        return (yield _Call("GET", f"/v1/evaluations/{id}/evidence", query))
    except LatheError as error:
        if error.status not in _OF_ONE:
            raise
        return error


def _tasks_without_reward(
    evaluations: Sequence[Evaluation], documents: Mapping[str, Union[dict[str, Any], LatheError]]
) -> dict[Any, str]:
    """Why, by task: what no right kernel can earn shall cost no wrong one anything."""
    reasons: dict[Any, str] = {}
    for evaluation in evaluations:
        document = documents.get(evaluation.id)
        if isinstance(document, LatheError) and document.status == 400:
            reasons.setdefault(evaluation.document.get("task"), document.message)
    return reasons


@dataclass(frozen=True)
class _Settings:
    """`patience_seconds`: how long a service that is not there, or is full, is asked again. A request that was
    sent twice is one evaluation, so all of them may be."""

    url: str
    token: str = field(repr=False)
    patience_seconds: float

    @staticmethod
    def of(url: Optional[str], token: Optional[str], patience_seconds: float) -> "_Settings":
        secret = (token if token is not None else os.environ.get("LATHE_TOKEN", "")).strip()  # a file ends a line
        if not re.fullmatch("[A-Za-z0-9_]*", secret):
            raise LatheError(0, "bad_token", "the token is none that `lathe serve token add` prints: lathe_ and digits")
        place = (url or os.environ.get("LATHE_URL") or DEFAULT_URL).strip().rstrip("/")
        if not re.fullmatch(r"(?i:https?)://(\[[0-9a-fA-F:.]+\]|[^/?#@\s:\[\]]+)(:\d{1,5})?(/[^?#@\s]*)?", place):
            shown = "the URL" if "@" in place else repr(place)  # a password stands before an @
            lacks_scheme = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d+)?(/[^?#@\s]*)?", place)
            remedy = f"http://{place}" if lacks_scheme else "http://HOST:8320"
            raise LatheError(0, "bad_url", f"{shown} is no URL of a service: write it as {remedy}")
        return _Settings(place, secret, patience_seconds)

    def arguments(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        # One's own connections are waited for as long as their answers take: that is no fault of the service's.
        timeout = httpx.Timeout(30, read=_LONGEST_WAIT_SECONDS + 30, pool=None)
        # What HTTP_PROXY names reaches no service of this machine's own.
        direct = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}
        return {"base_url": self.url, "headers": headers, "timeout": timeout, "mounts": direct}


class _Attempts:
    """Of one call: decides what an answer means, and how long to wait before the next."""

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings
        self._end: Optional[float] = None  # from the first failure on
        self._pause = 0.1

    def pause_after(self, response: Optional[httpx.Response], error: Optional[httpx.RequestError]) -> Optional[float]:
        """None: the answer is good. Raises LatheError where asking again is no use."""
        if response is not None and response.is_success:
            return None
        if self._end is None:
            self._end = time.monotonic() + self._settings.patience_seconds
        self._pause = min(2 * self._pause, 5.0)
        pause = self._pause * random.uniform(0.5, 1.0)
        if response is not None:
            if response.status_code not in _TRANSIENT:
                raise _refusal(response)
            pause = max(pause, _retry_after(response))
        if time.monotonic() + pause > self._end:
            if response is not None:
                raise _refusal(response)
            why = str(error) or type(error).__name__  # a timeout says nothing
            raise LatheError(0, "unreachable", f"no Lathe service answers at {self._settings.url}: {why}") from error
        return pause


def _retry_after(response: httpx.Response) -> float:
    try:
        return float(response.headers.get("Retry-After", "0"))
    except ValueError:
        return 0.0


def _refusal(response: httpx.Response) -> LatheError:
    try:
        document = response.json()
        error = (document["items"][0] if "items" in document else document)["error"]
        return LatheError(response.status_code, error["code"], error["message"], error.get("request_id", ""))
    except (ValueError, KeyError, TypeError, IndexError):
        place = response.headers.get("Location", "") if response.is_redirect else ""
        remedy = f", which points to {place}: give that server's URL" if place else ""
        what = f"HTTP {response.status_code} from something that is no Lathe{remedy}"
        return LatheError(response.status_code, "answer", what)


def _arguments_of(call: _Call) -> dict[str, Any]:
    arguments: dict[str, Any] = {"params": dict(call.query)}
    if call.body is not None:
        arguments["json"] = call.body
    return arguments


def _content(response: httpx.Response) -> dict[str, Any]:
    try:
        document: dict[str, Any] = response.json()
    except ValueError:
        raise LatheError(response.status_code, "answer", "the answer is not JSON") from None
    return document


class Client:
    """Waits for each answer. One client may be used from several threads.

    `url` and `token` default to LATHE_URL (else this machine) and LATHE_TOKEN."""

    def __init__(
        self, url: Optional[str] = None, token: Optional[str] = None, *, patience_seconds: float = 120
    ) -> None:
        self._settings = _Settings.of(url, token, patience_seconds)
        self._http = httpx.Client(**self._settings.arguments())

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def evaluate(self, task: Task, candidate: str, *, tries: int = 3, **more: Any) -> Evaluation:
        """The answer to one candidate. `more`: fields of Submission. A machine that fails, or a gym
        that is updated meanwhile, is asked `tries` times."""
        return self._run(_evaluate_one(Submission(task, candidate, **more), tries))

    def evaluate_all(
        self, submissions: Sequence[Submission], *, tries: int = 3, progress: Progress = None
    ) -> list[Evaluation]:
        """The answers in the order of the submissions. One that the service does not take is `refused`, and keeps
        no other."""
        return self._run(_evaluate(submissions, tries, progress))

    def grade(
        self,
        submissions: Sequence[Submission],
        scoring: Scoring = Scoring(),
        *,
        tries: int = 3,
        progress: Progress = None,
    ) -> list[Graded]:
        """Rewards and feedback in the order of the submissions; their depth is the scoring's. Raises for a reward or
        a peer that there is not; where a task has no such peer, its answers have the reward None."""
        return self._run(_grade(submissions, scoring, tries, progress))

    def submit(self, submissions: Sequence[Submission]) -> list[str]:
        """Ids, once the service will not forget them. Raises where it does not take one; the others it has."""
        return self._run(_submit(submissions))

    def wait(self, id: str, seconds: Optional[float] = None) -> Evaluation:
        """As it stands once it is final, or after so long."""
        return self._run(_wait_for(id, seconds))

    def evidence(self, id: str) -> dict[str, Any]:
        """The whole verdict, and feedback for the kernel's author."""
        return self._run(_evidence(id))

    def cancel(self, id: str) -> Evaluation:
        return self._run(_cancel(id))

    def tasks(self) -> dict[str, str]:
        """Digests by name."""
        return self._run(_tasks())

    def task(self, name: str) -> TaskText:
        """What the name, or the digest, stands for. LatheError 404: there is no such task, or a service of before has no such page."""
        return self._run(_task(name))

    def _run(self, exchange: Exchange[Value]) -> Value:
        try:
            call = next(exchange)
            while True:
                try:
                    answer = self._answer(call)
                except LatheError as error:
                    call = exchange.throw(error)
                else:
                    call = exchange.send(answer)
        except StopIteration as end:
            value: Value = end.value
            return value
        finally:
            exchange.close()

    def _answer(self, call: _Call) -> dict[str, Any]:
        attempts = _Attempts(self._settings)
        while True:
            response, error = None, None
            try:
                response = self._http.request(call.method, call.path, **_arguments_of(call))
            except httpx.RequestError as raised:
                error = raised
            pause = attempts.pause_after(response, error)
            if pause is None:
                assert response is not None
                return _content(response)
            time.sleep(pause)


class AsyncClient:
    """As Client, for asyncio; many calls may be awaited at once."""

    def __init__(
        self, url: Optional[str] = None, token: Optional[str] = None, *, patience_seconds: float = 120
    ) -> None:
        self._settings = _Settings.of(url, token, patience_seconds)
        self._http = httpx.AsyncClient(**self._settings.arguments(), limits=httpx.Limits(max_connections=256))

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def evaluate(self, task: Task, candidate: str, *, tries: int = 3, **more: Any) -> Evaluation:
        return await self._run(_evaluate_one(Submission(task, candidate, **more), tries))

    async def evaluate_all(
        self, submissions: Sequence[Submission], *, tries: int = 3, progress: Progress = None
    ) -> list[Evaluation]:
        return await self._run(_evaluate(submissions, tries, progress))

    async def grade(
        self,
        submissions: Sequence[Submission],
        scoring: Scoring = Scoring(),
        *,
        tries: int = 3,
        progress: Progress = None,
    ) -> list[Graded]:
        return await self._run(_grade(submissions, scoring, tries, progress))

    async def submit(self, submissions: Sequence[Submission]) -> list[str]:
        return await self._run(_submit(submissions))

    async def wait(self, id: str, seconds: Optional[float] = None) -> Evaluation:
        return await self._run(_wait_for(id, seconds))

    async def evidence(self, id: str) -> dict[str, Any]:
        return await self._run(_evidence(id))

    async def cancel(self, id: str) -> Evaluation:
        return await self._run(_cancel(id))

    async def tasks(self) -> dict[str, str]:
        return await self._run(_tasks())

    async def task(self, name: str) -> TaskText:
        return await self._run(_task(name))

    async def _run(self, exchange: Exchange[Value]) -> Value:
        try:
            call = next(exchange)
            while True:
                try:
                    answer = await self._answer(call)
                except LatheError as error:
                    call = exchange.throw(error)
                else:
                    call = exchange.send(answer)
        except StopIteration as end:
            value: Value = end.value
            return value
        finally:
            exchange.close()

    async def _answer(self, call: _Call) -> dict[str, Any]:
        attempts = _Attempts(self._settings)
        while True:
            response, error = None, None
            try:
                response = await self._http.request(call.method, call.path, **_arguments_of(call))
            except httpx.RequestError as raised:
                error = raised
            pause = attempts.pause_after(response, error)
            if pause is None:
                assert response is not None
                return _content(response)
            await asyncio.sleep(pause)
