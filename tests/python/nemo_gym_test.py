"""NeMo Gym's client against the resources server, over a real gym."""

import asyncio
import unittest

from nemo_gym.config_types import BaseServerConfig
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig, ServerClient, set_global_aiohttp_client
from omegaconf import OmegaConf

from common import RIGHT, TASK, UNPREPARABLE, WRONG, fake_service
from lathe_gym import LocalService
from lathe_gym.env.nemo_gym import KernelResourcesServer, KernelServerConfig
from served import Served


def response(answer: str) -> dict:
    """What a model server gives an agent."""
    made = NeMoGymResponse(
        id="resp_1", created_at=0, model="none", object="response", parallel_tool_calls=False, tool_choice="auto",
        tools=[], output=[{
            "id": "msg_1", "role": "assistant", "status": "completed", "type": "message",
            "content": [{"type": "output_text", "text": answer, "annotations": []}]}])
    return made.model_dump(mode="json")


def verify_request(answer: str, task=TASK) -> dict:
    return {"responses_create_params": {"input": "Write a kernel."}, "response": response(answer), "task": task}


class NeMoGym(unittest.TestCase):
    def serve(self, lathe_url: str, **fields) -> "ServerClient":
        config = KernelServerConfig(
            name="lathe", host="127.0.0.1", port=1, entrypoint="app.py", lathe_url=lathe_url, **fields)
        head = BaseServerConfig(host="127.0.0.1", port=1)
        nobody = ServerClient(head_server_config=head, global_config_dict=OmegaConf.create({}))
        server = KernelResourcesServer(config=config, server_client=nobody)
        served = self.enterContext(Served(server.setup_webserver()))
        place = {"host": "127.0.0.1", "port": int(served.url.rsplit(":", 1)[1])}
        return ServerClient(
            head_server_config=head,
            global_config_dict=OmegaConf.create({"lathe": {"resources_servers": {"lathe": place}}}))

    @classmethod
    def setUpClass(cls):
        """The client has one session for a whole process."""
        cls.runner = cls.enterClassContext(asyncio.Runner())

        async def opened():
            return set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())

        session = cls.runner.run(opened())
        cls.addClassCleanup(lambda: cls.runner.run(session.close()))

    def run_with(self, conversation):
        self.runner.run(conversation())

    def test_rollouts_of_a_real_gym(self):
        service = self.enterContext(LocalService(device="cpu"))
        client = self.serve(service.url, reward="correct", depth="verify")

        async def rollout(answer: str) -> dict:
            seeded = await client.post("lathe", "/seed_session", json={"task": TASK})
            self.assertEqual(seeded.status, 200)
            answered = await client.post("lathe", "/verify", json=verify_request(answer), cookies=seeded.cookies)
            self.assertEqual(answered.status, 200, await answered.text())
            return await answered.json()

        async def conversation():
            right = await rollout(f"Here:\n```cpp\n{RIGHT}```\n")
            wrong = await rollout(WRONG)
            broken = await rollout("I cannot.")
            self.assertEqual([one["reward"] for one in (right, wrong, broken)], [1, 0, 0])
            self.assertEqual([one["outcome"] for one in (right, wrong, broken)], ["PASS", "WRONG", "BUILD_FAILED"])
            self.assertFalse(any(one["mask_sample"] for one in (right, wrong, broken)))
            rows = [
                one | {"_ng_task_index": 0, "_ng_rollout_index": at} for at, one in enumerate((right, wrong, broken))]
            answered = await client.post("lathe", "/aggregate_metrics", json={"verify_responses": rows})
            self.assertEqual(answered.status, 200, await answered.text())
            metrics = (await answered.json())["agent_metrics"]
            self.assertAlmostEqual(metrics["mean/reward"], 1 / 3)
            self.assertAlmostEqual(metrics["mean/passed"], 1 / 3)

        self.run_with(conversation)

    def test_a_tool_gives_feedback_and_the_best_counts(self):
        service = self.enterContext(LocalService(device="cpu"))
        client = self.serve(service.url, reward="correct", depth="verify", max_turns=3)

        async def conversation():
            early = await client.post("lathe", "/submit_kernel", json={"candidate": WRONG})
            self.assertEqual(early.status, 409)
            seeded = await client.post("lathe", "/seed_session", json={"task": TASK})
            turns = []
            for candidate in (WRONG, RIGHT):
                sent = await client.post(
                    "lathe", "/submit_kernel", json={"candidate": candidate}, cookies=seeded.cookies)
                turns.append(await sent.json())
            self.assertIn("cases are wrong", turns[0]["feedback"])
            self.assertEqual([one["reward"] for one in turns], [0, 1])
            answered = await client.post("lathe", "/verify", json=verify_request("Done."), cookies=seeded.cookies)
            verdict = await answered.json()
            self.assertEqual((verdict["reward"], verdict["turns"], verdict["passed"]), (1, 2, True))

        self.run_with(conversation)

    def test_a_task_that_is_not_known_is_no_machine_that_failed(self):
        service = self.enterContext(LocalService(device="cpu"))
        client = self.serve(service.url)

        async def conversation():
            seeded = await client.post("lathe", "/seed_session", json={"task": "softmax"})
            answered = await client.post("lathe", "/verify", json=verify_request(RIGHT, "softmax"), cookies=seeded.cookies)
            self.assertEqual(answered.status, 400)
            self.assertIn("no task of that name", await answered.text())

        self.run_with(conversation)

    def test_a_task_that_cannot_be_prepared_is_no_machine_that_failed(self):
        service = self.enterContext(LocalService(device="cpu"))
        client = self.serve(service.url)

        async def conversation():
            seeded = await client.post("lathe", "/seed_session", json={"task": UNPREPARABLE})
            answered = await client.post(
                "lathe", "/verify", json=verify_request(RIGHT, UNPREPARABLE), cookies=seeded.cookies)
            self.assertEqual(answered.status, 400)
            self.assertNotIn("Retry-After", answered.headers)
            self.assertRegex(await answered.text(), "could not be prepared: .*no finite error bound")

        self.run_with(conversation)

    def test_a_machine_that_failed_is_asked_again_and_no_number(self):
        service = self.enterContext(fake_service())
        client = self.serve(service.url)

        async def conversation():
            seeded = await client.post("lathe", "/seed_session", json={"task": TASK})
            for _ in range(2):
                answered = await client.post(
                    "lathe", "/verify", json=verify_request("machine_fails"), cookies=seeded.cookies)
                self.assertEqual((answered.status, answered.headers["Retry-After"]), (503, "5"))
                self.assertIn("retry", await answered.text())

        self.run_with(conversation)


if __name__ == "__main__":
    unittest.main()
