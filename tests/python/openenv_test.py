"""OpenEnv's client against the environment, over a real gym."""

import unittest

import httpx
from openenv import GenericEnvClient

from common import MODULE_TASK, RIGHT, TASK, WRONG, fake_service
from served import Served
from lathe_gym import Client, LocalService, Scoring
from lathe_gym.env.openenv import create_app


class OpenEnv(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        service = cls.enterClassContext(LocalService(device="cpu"))
        client = cls.enterClassContext(Client(service.url))
        scoring = Scoring("correct", depth="verify")
        cls.served = cls.enterClassContext(Served(create_app(client, scoring, max_turns=3)))

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

    def test_a_module_is_a_task(self):
        with GenericEnvClient(base_url=self.served.url).sync() as env:
            self.assertIn("return x + x", env.reset(task=MODULE_TASK).observation["feedback"])
            self.assertEqual(env.state()["task"], MODULE_TASK)
        with httpx.Client(base_url=self.served.url, timeout=60) as http:
            step = http.post("/step", json={"action": {"answer": "x", "task": MODULE_TASK}})
            self.assertNotEqual(step.status_code, 422, step.text)

    def test_a_machine_that_failed_is_retry_and_no_number(self):
        service = self.enterContext(fake_service())
        client = self.enterContext(Client(service.url))
        served = self.enterContext(Served(create_app(client)))
        with GenericEnvClient(base_url=served.url).sync() as env:
            env.reset(task=TASK)
            after = env.step({"answer": "machine_fails"})
            self.assertIsNone(after.reward)
            self.assertEqual((after.observation["retry"], after.done), (True, False))


if __name__ == "__main__":
    unittest.main()
