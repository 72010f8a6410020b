"""OpenEnv's client against the environment, over a real gym."""

import tempfile
import unittest

import httpx
from openenv import GenericEnvClient

from common import MODULE_TASK, RIGHT, RIGHT_MODULE, TASK, UNPREPARABLE, WRONG, WRONG_MODULE, fake_service
from served import Served
from task_pages import TASKS, TaskPages
from lathe_gym import Client, LocalService, Scoring
from lathe_gym.env.openenv import create_app


def environment(enter, service: LocalService) -> Served:
    client = enter(Client(enter(service).url))
    return enter(Served(create_app(client, Scoring("correct", depth="verify"), max_turns=3)))


class OpenEnv(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = environment(cls.enterClassContext, LocalService(device="cpu"))

    def test_an_episode_of_three_turns(self):
        with GenericEnvClient(base_url=self.served.url).sync() as env:
            first = env.reset(task=TASK, episode_id="mine")
            self.assertIn("add(x, x)", first.observation["feedback"])
            self.assertEqual((first.reward, first.done), (None, False))
            wrong = env.step({"answer": WRONG})
            self.assertEqual((wrong.reward, wrong.done), (0, False))
            self.assertEqual(wrong.observation["outcome"], "WRONG")
            self.assertIn("cases are wrong", wrong.observation["feedback"])
            right = env.step({"answer": f"Now:\n```cpp\n{RIGHT}```\n"})
            self.assertEqual((right.reward, right.observation["outcome"]), (1, "PASS"))
            state = env.state()
            self.assertEqual((state["episode_id"], state["step_count"], state["best"]), ("mine", 2, 1))
            self.assertTrue(env.step({"answer": "no kernel"}).done)

    def test_sessions_do_not_share_an_episode(self):
        with GenericEnvClient(base_url=self.served.url).sync() as one:
            with GenericEnvClient(base_url=self.served.url).sync() as other:
                one.reset(task=TASK)
                other.reset(task=TASK)
                one.step({"answer": "no kernel"})
                self.assertEqual((one.state()["step_count"], other.state()["step_count"]), (1, 0))

    def test_without_a_session_a_step_names_its_task(self):
        with httpx.Client(base_url=self.served.url, timeout=60) as http:
            reset = http.post("/reset", json={"task": TASK, "prompt": "Begin."}).json()
            self.assertEqual(reset["observation"]["feedback"], "Begin.")
            step = http.post("/step", json={"action": {"answer": RIGHT, "task": TASK}}).json()
            self.assertEqual((step["reward"], step["done"]), (1, True))
            self.assertEqual(http.post("/step", json={"action": {"reply": RIGHT}}).status_code, 422)

    def test_the_first_observation_of_a_named_task_has_its_text(self):
        client = self.enterContext(Client(self.enterContext(TaskPages()).url))
        served = self.enterContext(Served(create_app(client)))
        with GenericEnvClient(base_url=served.url).sync() as env:
            first = env.reset(task="softmax_rows").observation["feedback"]
        self.assertIn((TASKS / "softmax_rows.toml").read_text().strip(), first)

    def test_a_mistake_is_refused_with_what_helps(self):
        mistakes = (
            ("/step", {"action": {"answer": RIGHT}}, "there is no task: send one with the action"),
            ("/step", {"action": {"answer": RIGHT, "task": "softmax"}}, "no task of that name.*GET /v1/tasks"),
            ("/step", {"action": {"answer": RIGHT, "task": MODULE_TASK}}, "need a service with --device host:cpu"),
            ("/step", {"action": {"answer": RIGHT, "task": UNPREPARABLE}}, "no finite error bound"),
            ("/step", {"action": {"answer": RIGHT, "task": {}}}, "a task is a name"),
            ("/reset", {"task": 5}, "a task is a name"),
            ("/reset", {"task": TASK, "prompt": 5}, "the prompt is no text"),
        )
        with httpx.Client(base_url=self.served.url, timeout=60) as http:
            for path, body, said in mistakes:
                with self.subTest(path=path, body=body):
                    answer = http.post(path, json=body)
                    self.assertEqual(answer.status_code, 400, answer.text)
                    self.assertRegex(answer.json()["detail"], said)

    def test_a_mistake_of_a_session_is_refused_with_what_helps(self):
        with GenericEnvClient(base_url=self.served.url).sync() as env:
            for act, said in (
                (lambda: env.step({"answer": RIGHT}), "there is no task: send one with the action, or over /ws reset first"),
                (lambda: env.reset(task={}), "a task is a name"),
            ):
                with self.assertRaisesRegex(RuntimeError, said):
                    act()
            env.reset(task="softmax", prompt="Begin.")
            with self.assertRaisesRegex(RuntimeError, "no task of that name"):
                env.step({"answer": RIGHT})
            env.reset(task=TASK)
            with self.assertRaisesRegex(RuntimeError, "chosen by its reset: leave it out"):
                env.step({"answer": RIGHT, "task": TASK})
            for _ in range(3):
                env.step({"answer": "no kernel"})
            with self.assertRaisesRegex(RuntimeError, "over: reset begins another"):
                env.step({"answer": RIGHT})

    def test_where_the_service_has_no_tasks_a_reset_without_one_says_so(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        served = environment(self.enterContext, fake_service("--tasks", folder))
        with httpx.Client(base_url=served.url) as http:
            answer = http.post("/reset", json={})
            self.assertEqual(answer.status_code, 400, answer.text)
            self.assertIn("the service has no tasks of its own: reset with one", answer.json()["detail"])
        with GenericEnvClient(base_url=served.url).sync() as env:
            with self.assertRaisesRegex(RuntimeError, "the service has no tasks of its own: reset with one"):
                env.reset()

    def test_a_service_that_is_not_there_is_no_mistake_of_the_clients(self):
        client = self.enterContext(Client("http://127.0.0.1:1", patience_seconds=0))
        served = self.enterContext(Served(create_app(client)))
        with httpx.Client(base_url=served.url) as http:
            answer = http.post("/reset", json={})
            self.assertEqual(answer.status_code, 503, answer.text)
            self.assertIn("no Lathe service answers at http://127.0.0.1:1", answer.json()["detail"])

    def test_a_machine_that_failed_is_retry_and_no_number(self):
        service = self.enterContext(fake_service())
        client = self.enterContext(Client(service.url))
        served = self.enterContext(Served(create_app(client)))
        with GenericEnvClient(base_url=served.url).sync() as env:
            env.reset(task=TASK)
            after = env.step({"answer": "machine_fails"})
            self.assertIsNone(after.reward)
            self.assertEqual((after.observation["retry"], after.done), (True, False))


class Modules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = environment(cls.enterClassContext, LocalService(device="host:cpu"))

    def test_a_module_is_a_task(self):
        with GenericEnvClient(base_url=self.served.url, message_timeout_s=900).sync() as env:
            self.assertIn("return x + x", env.reset(task=MODULE_TASK).observation["feedback"])
            self.assertEqual(env.state()["task"], MODULE_TASK)
            for module, outcome, reward in ((RIGHT_MODULE, "PASS", 1), (WRONG_MODULE, "WRONG", 0)):
                after = env.step({"answer": f"So:\n```python\n{module}```\n"})
                self.assertEqual((after.observation["outcome"], after.reward), (outcome, reward), after)

    def test_a_module_that_raises_is_a_mistake_of_the_task(self):
        source = MODULE_TASK["files"]["twice.py"].replace("return x + x", "raise RuntimeError('no such thing')")
        task = {**MODULE_TASK, "files": {"twice.py": source}}
        with httpx.Client(base_url=self.served.url, timeout=900) as http:
            answer = http.post("/step", json={"action": {"answer": RIGHT_MODULE, "task": task}})
            self.assertEqual(answer.status_code, 400, answer.text)
            self.assertRegex(answer.json()["detail"], "(?s)could not be prepared.*RuntimeError: no such thing")


if __name__ == "__main__":
    unittest.main()
