"""The Python clients against real services: workers that only sleep where many answers count, and one real gym."""

import asyncio
import contextlib
import http.server
import inspect
import io
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import typing
import unittest
import unittest.mock
from pathlib import Path

import httpx
from common import FAKE_WORKER, MODULE_TASK, RIGHT, TASK, UNPREPARABLE, WRONG, fake_service
from lathe_gym import client as clients
from lathe_gym import records
from lathe_gym import AsyncClient, Client, LatheError, LocalService, ProgressBar, Scoring, Submission, program
from lathe_gym.env import Episode, opening, opening_async
from lathe_gym.env.verl import MachineFailed, compute_score
from task_pages import TASKS, TaskPages

def submissions(count: int, text: str = "candidate") -> "list[Submission]":
    return [Submission(TASK, f"{text} {i} sleep=0.001", tag=f"tag {i}") for i in range(count)]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Terminal(io.StringIO):
    """Of what is written to a line, what stands behind its last carriage return is seen."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> "list[str]":
        return [line.split("\r")[-1].replace("\x1b[K", "") for line in self.getvalue().split("\n")]


class Progress(unittest.TestCase):
    def test_is_one_line_that_ends_with_all(self):
        terminal = Terminal()
        bar = ProgressBar(terminal)
        for done in range(1, 1001):
            bar(done, 1000)
        self.assertRegex(terminal.lines()[0], r"^1000/1000 \[#{10,40}\] 0:\d\d$")
        self.assertEqual(terminal.lines()[1:], [""])
        self.assertLess(terminal.getvalue().count("\r"), 500)

    def test_says_how_long_the_rest_takes(self):
        with unittest.mock.patch.dict("os.environ", {"COLUMNS": "80"}):
            self.assertEqual(ProgressBar._line(25, 100, 30), f" 25/100 [{'#' * 10}{'.' * 30}] 0:30, 1:30 left")
            self.assertEqual(ProgressBar._line(0, 0, 3600), f"0/0 [{'.' * 40}] 1:00:00")
        with unittest.mock.patch.dict("os.environ", {"COLUMNS": "12"}):
            self.assertEqual(ProgressBar._line(25, 100, 30), " 25/100 0:3")

    def test_is_nothing_where_nobody_watches(self):
        file = io.StringIO()
        ProgressBar(file)(1, 1)
        self.assertEqual(file.getvalue(), "")

    def test_ends_its_line_where_the_answers_end_early(self):
        with contextlib.redirect_stderr(Terminal()) as terminal:
            exchange = clients._evaluate(submissions(2), tries=1, progress=True)
            next(exchange)
            exchange.send({"items": [{"id": "a"}, {"id": "b"}]})
            exchange.send({"id": "a", "state": "failed", "error": "no such op"})
            exchange.close()
        self.assertIn("1/2 [", terminal.lines()[0])
        self.assertEqual(terminal.lines()[1:], [""])

    def test_of_a_client(self):
        with fake_service() as service, Client(service.url) as client:
            with contextlib.redirect_stderr(Terminal()) as terminal:
                client.evaluate_all(submissions(3), progress=True)
            self.assertIn("3/3 [", terminal.lines()[0])
            with contextlib.redirect_stderr(io.StringIO()) as file:
                client.evaluate_all(submissions(3), progress=True)
            self.assertEqual(file.getvalue(), "")
            impatient = Client(service.url, patience_seconds=0)
            with contextlib.redirect_stderr(Terminal()) as terminal, impatient as client:
                broken = [*submissions(1), Submission(TASK, "text", depth="no depth")]
                client.evaluate_all(broken, progress=True)
            self.assertIn("2/2 [", terminal.lines()[0])


class Exchanges(unittest.TestCase):
    """What is sent, whatever sends it."""

    def test_batches_are_as_large_as_the_service_takes(self):
        task = {"toml": TASK["toml"] + "# " + "\n" * 20_000}
        many = [Submission(task, f"candidate {i}", tag=f"tag {i}") for i in range(1024)]
        batches = list(clients._batches(many))
        self.assertGreater(len(batches), 1)
        self.assertEqual([item["tag"] for batch in batches for item in batch], [one.tag for one in many])
        for batch in batches:
            self.assertLess(len(json.dumps({"items": batch})), 16 << 20)
        self.assertEqual([len(batch) for batch in clients._batches(submissions(1025))], [1024, 1])

    def test_what_an_update_of_the_service_has_ended_is_submitted_again(self):
        exchange = clients._evaluate([Submission(TASK, "one")], tries=3, progress=None)
        outdated = {"state": "failed", "error": "the gym has been updated since: submit it again"}
        call = next(exchange)
        for id in ("old", "new"):
            self.assertEqual(call.path, "/v1/evaluations/batch")
            call = exchange.send({"items": [{"id": id, "state": "queued"}]})
            self.assertEqual(call.path, f"/v1/evaluations/{id}")
            if id == "old":
                call = exchange.send({"id": id, **outdated})
        with self.assertRaises(StopIteration) as end:
            exchange.send({"id": "new", "state": "failed", "error": "no such op"})
        (evaluation,) = end.exception.value
        self.assertEqual((evaluation.id, evaluation.error), ("new", "no such op"))

    def test_a_task_that_a_machine_could_not_prepare_is_tried_again_but_not_for_ever(self):
        exchange = clients._grade([Submission(TASK, "one")], Scoring(), tries=3, progress=None)
        next(exchange)
        with self.assertRaises(StopIteration) as end:
            for id in "abc":
                exchange.send({"items": [{"id": id}]})
                exchange.send({"id": id, "state": "failed", "error": "the task could not be prepared"})
        (graded,) = end.exception.value
        self.assertEqual((graded.evaluation.id, graded.reward, graded.retry), ("c", None, False))
        with self.assertRaisesRegex(LatheError, "the task could not be prepared"):
            Episode(TASK)._after(graded)

    def test_what_was_ended_before_its_verdict_may_be_asked_again(self):
        for ended in ({"state": "cancelled"}, {"state": "expired"},
                      {"state": "failed", "error": "the gym has been updated since: submit it again"}):
            exchange = clients._grade([Submission(TASK, "one")], Scoring(), tries=1, progress=None)
            next(exchange)
            exchange.send({"items": [{"id": "a"}]})
            with self.assertRaises(StopIteration) as end:
                exchange.send({"id": "a", **ended})
            (graded,) = end.exception.value
            self.assertEqual((graded.reward, graded.retry), (None, True))

    def test_errors_that_are_told_apart_are_worded_as_in_the_service(self):
        service = "".join(file.read_text() for file in (Path(os.environ["LATHE_SOURCE"]) / "src/serve").glob("*.*"))
        for error in (records.OUTDATED, clients._UNPREPARED):
            self.assertIn(f'"{error}"', service)

    def test_what_a_right_kernel_of_a_task_cannot_earn_no_wrong_one_loses(self):
        scoring = Scoring("speedup", peer="onednn")
        exchange = clients._grade([Submission(TASK, text) for text in ("a", "b", "c")], scoring, 1, None)
        call = next(exchange)
        self.assertEqual(call.query, {"reward": "speedup", "peer": "onednn"})
        call = exchange.send({"items": [{"id": id} for id in "abc"]})
        verdict = {"outcome": "PASS", "reason": "ok"}
        for id in "abc":
            call = exchange.send({"id": id, "state": "done", "task": "other" if id == "c" else "same", "verdict": verdict})
        call = exchange.send({"feedback": "WRONG", "reward": 0})
        call = exchange.throw(LatheError(400, "invalid", "there is no speedup over 'onednn'"))
        self.assertIn("/c/", call.path)
        with self.assertRaises(StopIteration) as end:
            exchange.send({"feedback": "good", "reward": 2})
        wrong, right, other = end.exception.value
        self.assertEqual((wrong.reward, right.reward, other.reward), (None, None, 2))
        for one in (wrong, right):
            self.assertIn("no speedup over 'onednn'", one.feedback)
            self.assertFalse(one.retry)
            with self.assertRaisesRegex(LatheError, "no speedup over 'onednn'"):
                Episode(TASK)._after(one)

    def test_what_fails_of_one_evaluation_keeps_no_other(self):
        exchange = clients._grade([Submission(TASK, text) for text in ("a", "b")], Scoring(), 1, None)
        next(exchange)
        exchange.send({"items": [{"id": "a"}, {"id": "b"}]})
        exchange.throw(LatheError(404, "not_found", "there is no such evaluation"))
        exchange.send({"id": "b", "state": "done", "verdict": {"outcome": "PASS", "reason": "ok"}})
        with self.assertRaises(StopIteration) as end:
            exchange.send({"feedback": "good", "reward": 2})
        gone, good = end.exception.value
        self.assertEqual((gone.reward, good.reward), (None, 2))
        self.assertIn("no such evaluation", gone.feedback)

    def test_an_answer_that_takes_long_uses_up_no_patience(self):
        attempts = clients._Attempts(clients._Settings.of("http://nobody", "", 0.5))
        time.sleep(0.6)
        self.assertGreater(attempts.pause_after(None, httpx.ConnectError("no")), 0)
        time.sleep(0.6)
        with self.assertRaises(LatheError):
            attempts.pause_after(None, httpx.ConnectError("no"))

    def test_a_url_that_names_no_service_is_refused_with_what_helps(self):
        for wrong, remedy in (
            ("localhost:8320", "http://localhost:8320"),
            ("gpu-box", "http://gpu-box"),
            ("[::1]:8320", r"http://\[::1\]:8320"),
            ("ftp://gpu-box", "http://HOST:8320"),
            ("http://", "http://HOST:8320"),
            ("http:/gpu-box", "http://HOST:8320"),
            ("http://gpu-box:port", "http://HOST:8320"),
        ):
            for client in (Client, AsyncClient):
                with self.assertRaisesRegex(LatheError, remedy) as refused:
                    client(wrong)
                self.assertEqual((refused.exception.status, refused.exception.code), (0, "bad_url"))
        with self.assertRaises(LatheError) as refused:
            Client("http://me:secret@box")
        self.assertNotIn("secret", str(refused.exception))
        for right in ("http://box", "HTTPS://box:1/gym/", "http://[::1]:8320", " http://box\n"):
            self.assertEqual(clients._Settings.of(right, "", 1).url, right.strip().rstrip("/"))

    def test_an_error_reaches_other_processes_whole(self):
        error = pickle.loads(pickle.dumps(LatheError(400, "invalid", "no task of that name", "r1")))
        self.assertEqual((error.status, error.code, error.request_id), (400, "invalid", "r1"))
        self.assertEqual(str(error), "no task of that name (invalid, request r1)")

    def test_an_error_without_words_is_told_by_its_kind(self):
        attempts = clients._Attempts(clients._Settings.of("http://nobody", "", 0))
        with self.assertRaisesRegex(LatheError, "http://nobody: ReadTimeout"):
            attempts.pause_after(None, httpx.ReadTimeout(""))

    def test_what_answers_for_another_number_of_submissions_is_no_service(self):
        exchange = clients._submit(submissions(2))
        next(exchange)
        with self.assertRaisesRegex(LatheError, "none of a Lathe service"):
            exchange.send({"items": [{"id": "a"}]})

    def test_both_clients_have_the_same_methods_and_the_later_ones_are_coroutines(self):
        names = {name for name in vars(Client) if not name.startswith("_")}
        self.assertLessEqual(names, set(vars(AsyncClient)))
        for name in names:
            self.assertTrue(inspect.iscoroutinefunction(getattr(AsyncClient, name)), name)

    def test_a_full_batch_says_whose_limit_it_is(self):
        full = {"items": [{"error": {"code": "busy", "message": "this client has 5 unfinished requests"}}]}
        refusal = clients._refusal(httpx.Response(429, json=full))
        self.assertEqual((refusal.status, refusal.code), (429, "busy"))
        self.assertIn("this client has 5", refusal.message)

    def test_the_nulls_of_a_table_of_tasks_are_not_sent(self):
        row = {"name": None, "toml": "a", "files": {"a.py": "b", "other.py": None}}
        self.assertEqual(Submission(row, "x").to_json()["task"], {"toml": "a", "files": {"a.py": "b"}})

    def test_waiting_for_a_connection_of_ones_own_has_no_end(self):
        self.assertIsNone(clients._Settings.of(None, "", 1).arguments()["timeout"].pool)


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = fake_service()
        cls.service.__enter__()
        cls.addClassCleanup(cls.service.__exit__)

    def test_answers_come_in_the_order_of_the_submissions(self):
        seen = []
        with Client(self.service.url) as client:
            done = client.evaluate_all(submissions(300), progress=lambda *at: seen.append(at))
        self.assertEqual([one.tag for one in done], [f"tag {i}" for i in range(300)])
        self.assertEqual(len({one.id for one in done}), 300)
        self.assertTrue(all(one.is_final and one.verdict for one in done))
        self.assertEqual(seen[-1], (300, 300))

    def test_outcomes_and_states_have_the_services_names(self):
        schemas = httpx.get(f"{self.service.url}/openapi.json").json()["components"]["schemas"]
        outcomes = schemas["Verdict"]["properties"]["outcome"]["enum"]
        self.assertCountEqual(typing.get_args(records.Outcome), outcomes)
        states = schemas["Evaluation"]["properties"]["state"]["enum"]
        self.assertCountEqual(typing.get_args(records.State), [*states, "refused"])
        self.assertEqual(set(states) - records.FINAL_STATES, {"queued", "running"})

    def test_the_same_submission_is_the_same_evaluation(self):
        with Client(self.service.url) as client:
            first, second = client.submit([Submission(TASK, "same"), Submission(TASK, "same", tag="again")])
        self.assertEqual(first, second)

    def test_two_hundred_are_awaited_at_once(self):
        async def all_of_them():
            async with AsyncClient(self.service.url) as client:
                return await asyncio.gather(*(client.evaluate(TASK, f"async {i}") for i in range(200)))

        self.assertEqual(len({one.id for one in asyncio.run(all_of_them())}), 200)

    def test_what_the_service_refuses_says_why(self):
        with Client(self.service.url) as client:
            with self.assertRaisesRegex(LatheError, "no task of that name") as unknown:
                client.evaluate("no_such_task", "text")
            with self.assertRaisesRegex(LatheError, "submission 1: .*depth"):
                client.submit([Submission(TASK, "good"), Submission(TASK, "bad", depth="deepest")])
            with self.assertRaises(LatheError) as missing:
                client.wait("0" * 64)
        self.assertEqual(unknown.exception.status, 400)
        self.assertEqual(missing.exception.status, 404)

    BAD_TEXTS = ("x" * ((1 << 20) + 1), "lone \ud800 surrogate")

    def mixed(self, is_answer: bool = False) -> "list[Submission]":
        bad = self.BAD_TEXTS if not is_answer else ("x" * (13 << 20), self.BAD_TEXTS[1], "a\x00" * (3 << 20))
        texts = ["first", *bad, "last"]
        return [Submission(TASK, text, tag=f"tag {i}", is_answer=is_answer) for i, text in enumerate(texts)]

    def check(self, done, many):
        self.assertEqual([one.tag for one in done], [one.tag for one in many])
        self.assertEqual([one.state for one in done], ["done", *["refused"] * (len(many) - 2), "done"])
        for one in done[1:-1]:
            self.assertTrue(one.is_final)
            self.assertEqual((one.id, one.verdict.outcome, one.verdict.reason), ("", "BUILD_FAILED", "bad_candidate"))
        self.assertIn("longer than", done[1].error)
        self.assertIn("surrogates", done[2].error)

    def test_a_text_that_is_no_candidate_keeps_no_other(self):
        async def at_once(many):
            async with AsyncClient(self.service.url) as client:
                one_by_one = asyncio.gather(*(client.evaluate(one.task, one.candidate, tag=one.tag) for one in many))
                return await client.evaluate_all(many), await one_by_one

        with Client(self.service.url) as client:
            for is_answer in (False, True):
                many = self.mixed(is_answer)
                self.check(client.evaluate_all(many), many)
                graded = client.grade(many, Scoring("correct"))
                self.check([one.evaluation for one in graded], many)
                self.assertEqual([one.reward for one in graded[1:-1]], [0.0] * (len(many) - 2))
                self.assertIn("longer than", graded[1].feedback)
            with self.assertRaisesRegex(LatheError, "submission 1: .*longer than"):
                client.submit(self.mixed())
        for done in asyncio.run(at_once(self.mixed())):
            self.check(done, self.mixed())

    def test_a_submission_that_the_service_does_not_take_keeps_no_other(self):
        many = [Submission(TASK, "good"), Submission("no_such_task", "x"), Submission(TASK, "x", tag="\ud800"),
                Submission(TASK, None), Submission(TASK, "x", deadline_seconds=float("nan")),
                Submission(TASK, "also good", tag="last")]
        with Client(self.service.url) as client:
            graded = client.grade(many, Scoring("correct"))
        self.assertEqual([one.evaluation.state for one in graded], ["done"] + 4 * ["refused"] + ["done"])
        self.assertIn("no task of that name", graded[1].feedback)
        self.assertIn("no text, but None", graded[3].feedback)
        for one in graded[1:5]:
            self.assertIsNone(one.evaluation.verdict)
            self.assertIsNone(one.reward)
        self.assertEqual(graded[5].evaluation.tag, "last")

    def test_what_is_no_id_is_said_to_be_none(self):
        async def asks(method):
            async with AsyncClient(self.service.url) as client:
                await getattr(client, method)("../tasks")

        for method in ("wait", "evidence", "cancel"):
            with Client(self.service.url) as client, self.assertRaisesRegex(ValueError, "'../tasks' is no"):
                getattr(client, method)("../tasks")
            with self.assertRaisesRegex(ValueError, "submit"):
                asyncio.run(asks(method))

    def test_a_wait_ends_in_time_and_what_is_cancelled_says_so(self):
        with Client(self.service.url) as client:
            (id,) = client.submit([Submission(TASK, "long sleep=2")])
            begin = time.monotonic()
            self.assertFalse(client.wait(id, 0.2).is_final)
            self.assertLess(time.monotonic() - begin, 10)
            self.assertEqual(client.cancel(id).state, "cancelled")
            self.assertEqual(client.wait(id).state, "cancelled")


class NamedTasks(unittest.TestCase):
    """Against the service where it has a page for each task, else against a stand-in for those pages."""

    @classmethod
    def setUpClass(cls):
        service = cls.enterClassContext(fake_service())
        has_texts = httpx.get(f"{service.url}/v1/tasks/softmax_rows").status_code == 200
        cls.url = service.url if has_texts else cls.enterClassContext(TaskPages()).url
        cls.client = cls.enterClassContext(Client(cls.url))

    def asked_async(self, ask):
        async def answer():
            async with AsyncClient(self.url) as client:
                return await ask(client)

        return asyncio.run(answer())

    def test_have_their_text(self):
        for task in (self.client.task("softmax_rows"), self.asked_async(lambda client: client.task("softmax_rows"))):
            self.assertEqual((task.name, task.digest), ("softmax_rows", self.client.tasks()["softmax_rows"]))
            self.assertEqual(task.toml.strip(), (TASKS / "softmax_rows.toml").read_text().strip())

    def test_that_there_are_not_are_errors(self):
        for name in ("softmax", "../tasks", "a?b#c", "a/b", "ä", ""):
            with self.subTest(name), self.assertRaises(LatheError) as unknown:
                self.client.task(name)
            self.assertEqual(unknown.exception.status, 404)

    def test_open_with_their_whole_text(self):
        text = (TASKS / "softmax_rows.toml").read_text().strip()
        for task in ("softmax_rows", {"name": "softmax_rows"}):
            first = opening(task, self.client)
            self.assertIn(f"```toml\n{text}\n```", first)
            self.assertIn("/*lathe", first)
            self.assertEqual(self.asked_async(lambda client: opening_async(task, client)), first)

    def test_open_with_their_module(self):
        with TaskPages() as pages, Client(pages.url) as client:
            module = client.task("twice_module")
            self.assertEqual(module.to_json(), MODULE_TASK)
            for task in ("twice_module", module.digest, {"digest": module.digest}):
                self.assertEqual(opening(task, client), opening(MODULE_TASK))

    def test_open_with_their_name_where_the_service_tells_no_texts(self):
        with TaskPages(has_texts=False) as before, Client(before.url) as client:
            self.assertEqual(opening("softmax_rows", client), opening("softmax_rows"))
            self.assertIn("Lathe's task softmax_rows.", opening("softmax_rows", client))

    def test_a_text_that_was_sent_is_shown_without_asking(self):
        with Client(f"http://127.0.0.1:{free_port()}", patience_seconds=0) as nobody:
            self.assertEqual(opening(TASK, nobody), opening(TASK))
            with self.assertRaisesRegex(LatheError, "no Lathe service answers"):
                opening("softmax_rows", nobody)


class Faults(unittest.TestCase):
    def test_a_full_queue_is_waited_for(self):
        with fake_service("--max-unfinished", "8") as service, Client(service.url) as client:
            done = client.evaluate_all(submissions(60))
        self.assertEqual(len({one.id for one in done}), 60)

    def test_a_service_that_is_killed_and_comes_back_costs_nothing(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:

            def start():
                command = [str(program()), "serve", "--port", str(port), "--device", "cpu", "--store", folder]
                command += ["--worker-program", FAKE_WORKER, "--workers", "2"]
                return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

            services = [start()]

            def kill_and_start():
                for _ in range(3):
                    time.sleep(0.3)
                    services[-1].send_signal(signal.SIGKILL)
                    services[-1].wait()
                    services.append(start())

            killer = threading.Thread(target=kill_and_start)
            killer.start()
            with Client(f"http://127.0.0.1:{port}") as client:
                done = [client.evaluate(TASK, f"through it {i} sleep=0.01") for i in range(100)]
            killer.join()
            services[-1].terminate()
            services[-1].wait()
        self.assertEqual(len({one.id for one in done}), 100)
        self.assertTrue(all(one.state == "done" for one in done))

    def test_where_nobody_answers_the_error_names_the_place(self):
        url = f"http://127.0.0.1:{free_port()}"
        with Client(url, patience_seconds=0.5) as client:
            with self.assertRaisesRegex(LatheError, url) as nobody:
                client.tasks()
        self.assertEqual(nobody.exception.status, 0)

    @contextlib.contextmanager
    def another_server(self, status, body, **headers):
        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with Client(f"http://127.0.0.1:{server.server_port}", patience_seconds=0) as client:
                yield client
            server.shutdown()

    def test_another_server_is_no_lathe(self):
        for status, body, headers, said in (
            (200, b"<html>", {}, "not JSON"),
            (404, b"<html>", {}, "HTTP 404 from something that is no Lathe"),
            (200, b"[]", {}, "none of a Lathe service"),
            (200, b'{"hello": "world"}', {}, "none of a Lathe service"),
            (200, b"{}", {"Content-Length": "100"}, "no Lathe service answers"),
            (200, b"{}", {"Content-Encoding": "gzip"}, "no Lathe service answers"),
            (308, b"", {"Location": "https://gym/v1/tasks"}, "points to https://gym/v1/tasks"),
        ):
            with self.subTest(status=status, body=body), self.another_server(status, body, **headers) as client:
                for ask in (client.tasks, lambda: client.task("a"), lambda: client.wait("0" * 64)):
                    with self.assertRaisesRegex(LatheError, said):
                        ask()

    def test_no_proxy_stands_before_a_service_of_this_machine(self):
        nobody = f"http://127.0.0.1:{free_port()}"
        with fake_service() as service, unittest.mock.patch.dict("os.environ", {"HTTP_PROXY": nobody, "NO_PROXY": ""}):
            with Client(service.url, patience_seconds=0) as client:
                self.assertIn("softmax_rows", client.tasks())

            async def tasks():
                async with AsyncClient(service.url, patience_seconds=0) as client:
                    return await client.tasks()

            self.assertIn("softmax_rows", asyncio.run(tasks()))
            with Client("http://gym", patience_seconds=0) as elsewhere, self.assertRaisesRegex(LatheError, "refused"):
                elsewhere.tasks()

    def test_a_call_that_is_cancelled_leaves_the_client_as_it_was(self):
        async def conversation(url):
            async with AsyncClient(url) as client:
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(client.evaluate(TASK, "long sleep=20"), 0.5)
                return await client.evaluate(TASK, "short")

        with fake_service() as service:
            self.assertEqual(asyncio.run(conversation(service.url)).state, "done")

    def test_a_token_of_a_file_ends_a_line_and_no_error_shows_one(self):
        self.assertEqual(clients._Settings.of(None, "lathe_12ab\n", 1).token, "lathe_12ab")
        for bad in ("lathe_1\r\nX-Evil: y", "lathe_\u00e9"):
            with self.assertRaises(LatheError) as refused:
                Client("http://localhost:1", bad)
            self.assertEqual(refused.exception.code, "bad_token")
            self.assertNotIn(bad, str(refused.exception))

    def test_a_token_is_needed_and_never_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run(
                [str(program()), "serve", "token", "add", "me", "--role", "submit", "--store", folder],
                capture_output=True, text=True, check=True)
            token = next(word for word in made.stdout.split() if word.startswith("lathe_"))
            more = ["--worker-program", FAKE_WORKER]
            with LocalService(device="cpu", store=folder, more=more) as service:
                with Client(service.url, token) as client:
                    self.assertEqual(client.evaluate(TASK, "with a token").state, "done")
                    self.assertNotIn(token, repr(client._settings))
                with Client(service.url, "lathe_wrong") as client:
                    with self.assertRaises(LatheError) as refused:
                        client.evaluate(TASK, "with another")
                self.assertEqual(refused.exception.status, 401)
                self.assertNotIn("lathe_wrong", str(refused.exception))

    def test_a_local_service_ends_with_a_process_that_is_killed(self):
        program = "from lathe_gym import LocalService\nimport time\n" \
            "with LocalService(device='cpu') as service:\n    print(service.url, flush=True)\n    time.sleep(600)\n"
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
            url = owner.stdout.readline().strip()
            with Client(url) as client:
                self.assertIn("softmax_rows", client.tasks())
            owner.kill()
        deadline = time.monotonic() + 20
        with self.assertRaisesRegex(LatheError, "no Lathe service answers"):
            while time.monotonic() < deadline:
                with Client(url, patience_seconds=0) as client:
                    client.tasks()
                time.sleep(0.1)

    def test_a_service_that_cannot_start_says_why(self):
        with self.assertRaisesRegex(RuntimeError, "did not start: .*no-such-option"):
            LocalService(more=["--no-such-option"]).__enter__()


class Verdicts(unittest.TestCase):
    def test_of_a_real_gym(self):
        with LocalService(device="cpu") as service, Client(service.url) as client:
            right, wrong, broken = client.evaluate_all([
                Submission(TASK, RIGHT),
                Submission(TASK, WRONG),
                Submission(TASK, "no kernel")])
            self.assertTrue(right.verdict.passed, right)
            self.assertGreater(right.verdict.median_ns, 0)
            self.assertGreater(right.verdict.speedups["naive"].low, 0)
            self.assertEqual(wrong.verdict.outcome, "WRONG")
            self.assertEqual(broken.verdict.outcome, "BUILD_FAILED")
            self.assertIn("feedback", client.evidence(wrong.id))


class Rewards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = LocalService(device="cpu")
        cls.service.__enter__()
        cls.addClassCleanup(cls.service.__exit__)
        cls.client = Client(cls.service.url)
        cls.addClassCleanup(cls.client.close)

    def test_are_the_services(self):
        answers = [Submission(TASK, f"So:\n```cpp\n{text}```\n", is_answer=True) for text in (RIGHT, WRONG, "?")]
        for scoring in (Scoring(), Scoring("correct", depth="verify"), Scoring("fast_1", peer="naive")):
            right, wrong, broken = self.client.grade(answers, scoring)
            self.assertGreater(right.reward, 0)
            self.assertEqual((wrong.reward, broken.reward), (0, 0))
            self.assertIn("cases are wrong", wrong.feedback)
        speedup = self.client.grade(answers[:1])[0]
        low = speedup.evaluation.verdict.speedups["naive"].low
        self.assertAlmostEqual(speedup.reward, 1 + min(low, 3), places=6)

    def test_that_do_not_exist_are_refused_with_those_that_do(self):
        with self.assertRaisesRegex(LatheError, "unknown reward 'best'; one of: .*log_speedup"):
            evaluated = lambda done, of: self.fail("it was evaluated first")  # noqa: E731
            self.client.grade([Submission(TASK, RIGHT)], Scoring("best", depth="build"), progress=evaluated)

    def test_of_a_peer_that_a_task_does_not_have_are_none(self):
        async def at_once(answers, scoring):
            async with AsyncClient(self.service.url) as client:
                return await client.grade(answers, scoring)

        answers = [Submission(TASK, RIGHT), Submission(TASK, WRONG), Submission("batched_matmul", "no kernel")]
        scoring = Scoring("speedup", peer="openblas")
        for right, wrong, other in (self.client.grade(answers, scoring), asyncio.run(at_once(answers, scoring))):
            self.assertEqual((right.reward, wrong.reward, other.reward), (None, None, 0))
            for one in (right, wrong):
                self.assertIn("no peer 'openblas'", one.feedback)
        evaluated = lambda done, of: self.fail("it was evaluated first")  # noqa: E731
        with self.assertRaisesRegex(LatheError, "unknown peer 'opnblas'; one of: .*openblas"):
            self.client.grade(answers, Scoring("speedup", peer="opnblas"), progress=evaluated)

    def test_an_episode_goes_on_with_the_feedback(self):
        episode = Episode(TASK, Scoring("correct", depth="verify"), max_turns=3, good_enough=1)
        first = episode.step(self.client, WRONG)
        self.assertEqual((first.reward, first.done), (0, False))
        self.assertIn("cases are wrong", first.feedback)
        second = episode.step(self.client, RIGHT)
        self.assertEqual((second.reward, second.done), (1, True))
        self.assertEqual((episode.best, episode.turns), (1, 2))
        with self.assertRaisesRegex(ValueError, "over"):
            episode.step(self.client, RIGHT)

    def test_an_episode_ends_after_its_last_turn(self):
        async def last():
            async with AsyncClient(self.service.url) as client:
                return await Episode(TASK, Scoring("correct", depth="verify")).step_async(client, WRONG)

        self.assertTrue(asyncio.run(last()).done)

    def test_a_task_that_is_not_known_is_no_machine_that_failed(self):
        episode = Episode("softmax", max_turns=2)
        with self.assertRaisesRegex(LatheError, "no task of that name"):
            episode.step(self.client, RIGHT)
        self.assertEqual((episode.turns, episode.done), (0, False))

    def test_a_task_that_cannot_be_prepared_is_no_machine_that_failed(self):
        (graded,) = self.client.grade([Submission(UNPREPARABLE, RIGHT)])
        self.assertEqual((graded.evaluation.state, graded.reward, graded.retry), ("failed", None, False))
        self.assertIn("could not be prepared: ", graded.feedback)
        self.assertIn("have no finite error bound", graded.feedback)
        episode = Episode(UNPREPARABLE, max_turns=2)
        with self.assertRaisesRegex(LatheError, "could not be prepared: .*no finite error bound") as failed:
            episode.step(self.client, RIGHT)
        self.assertEqual((failed.exception.code, episode.turns), ("task_failed", 0))
        with self.assertRaisesRegex(LatheError, "could not be prepared: .*no finite error bound"):
            asyncio.run(compute_score("", RIGHT, "", {"task": UNPREPARABLE}, url=self.service.url, tries=20))

    def test_what_verl_calls_has_a_score(self):
        async def scored():
            row = {"data_source": "lathe", "ground_truth": "", "extra_info": {"task": TASK}}
            options = {"url": self.service.url, "reward": "correct", "depth": "verify"}
            return await asyncio.gather(*(compute_score(solution_str=text, **row, **options) for text in (RIGHT, WRONG)))

        for _ in range(2):  # in an event loop each
            right, wrong = asyncio.run(scored())
            self.assertEqual(right, {"score": 1, "passed": 1, "outcome": "PASS"})
            self.assertEqual(wrong, {"score": 0, "passed": 0, "outcome": "WRONG"})

    def test_the_opening_shows_the_task(self):
        self.assertIn('graph = "y = add(x, x)"', opening(TASK))
        self.assertIn("softmax_rows", opening("softmax_rows"))
        self.assertIn("/*lathe", opening(TASK))
        module = opening(MODULE_TASK)
        self.assertIn("`twice.py` is:\n\n```python\nimport torch", module)
        self.assertIn('"""lathe front matter', module)


class MachinesThatFail(unittest.TestCase):
    def test_are_no_reward_and_no_turn(self):
        with fake_service() as service, Client(service.url) as client:
            (graded,) = client.grade([Submission(TASK, "machine_fails")])
            self.assertTrue(graded.retry)
            self.assertIsNone(graded.reward)
            episode = Episode(TASK)
            after = episode.step(client, "machine_fails")
            self.assertEqual((after.reward, after.retry, after.done), (None, True, False))
            self.assertEqual((episode.turns, episode.best), (0, None))
            with self.assertRaises(MachineFailed):
                asyncio.run(compute_score("", "machine_fails", "", {"task": TASK}, url=service.url, tries=2))


if __name__ == "__main__":
    unittest.main()
