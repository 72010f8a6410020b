"""verifiers plays episodes of a real gym; the model is a server that gives answers in turn."""

import asyncio
import http.server
import json
import os
import tempfile
import threading
import unittest
from pathlib import Path

import verifiers.v1 as vf

from common import RIGHT, TASK, UNPREPARABLE, WRONG, fake_service
from lathe_gym import LocalService
from task_pages import TASKS, TaskPages


class Model(http.server.ThreadingHTTPServer):
    """An OpenAI-compatible endpoint: the answer to the Nth user message is the Nth of its own."""

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Completions)
        self.answers = answers
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Completions(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        users = [one["content"] for one in body["messages"] if one["role"] == "user"]
        self.server.asked.append(users)
        text = self.server.answers[len(users) - 1]
        chunk = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [{
            "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        if body.get("stream"):
            chunk["object"] = "chat.completion.chunk"
            chunk["choices"][0]["delta"] = chunk["choices"][0].pop("message")
            payload, kind = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode(), "text/event-stream"
        else:
            payload, kind = json.dumps(chunk).encode(), "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_):
        pass


class Verifiers(unittest.TestCase):
    def play(self, url: str, model: Model, task=TASK, **fields):
        rows = Path(self.enterContext(tempfile.TemporaryDirectory())) / "rows.jsonl"
        rows.write_text(json.dumps({"task": task, "name": "tiny", "prompt": "Write it."}) + "\n")
        config_type = vf.env_config_type("lathe-kernels")
        env = vf.load_environment(config_type.model_validate({
            "taskset": {"id": "lathe-kernels", "rows": str(rows)}, "author": {"harness": {"id": "chat-harness"}},
            "url": url, **fields}))
        context = vf.ModelContext(
            client=vf.EvalClientConfig(base_url=model.url, api_key_var="NONE"), model="scripted",
            sampling=vf.SamplingConfig())

        async def episode():
            async with env.serving():
                (slot,) = env.slots(next(iter(env.taskset)))
                return await env.run_slot(slot, context)

        return asyncio.run(episode())

    def test_feedback_is_the_next_turn_and_the_best_counts(self):
        service = self.enterContext(LocalService(device="cpu"))
        model = self.enterContext(Model([WRONG, f"```cpp\n{RIGHT}```", "no kernel"]))
        episode = self.play(service.url, model, reward="correct", depth="verify", max_turns=3)
        self.assertTrue(episode.ok, episode.errors)
        (trace,) = episode.traces
        self.assertEqual(trace.reward, 1)
        self.assertEqual({name: trace.metrics[name] for name in ("turn_1", "turn_2", "turn_3", "passed")},
                         {"turn_1": 0, "turn_2": 1, "turn_3": 0, "passed": 1})
        self.assertEqual(len(model.asked), 3)
        self.assertEqual(model.asked[0], ["Write it."])
        self.assertIn("cases are wrong", model.asked[1][1])

    def test_a_machine_that_failed_fails_the_episode(self):
        service = self.enterContext(fake_service())
        model = self.enterContext(Model(["machine_fails"]))
        episode = self.play(service.url, model)
        self.assertFalse(episode.ok)
        self.assertIn("retry", episode.errors[0].message)
        self.assertFalse(any(trace.rewards for trace in episode.traces))

    def test_a_task_that_cannot_be_prepared_fails_the_episode_otherwise(self):
        service = self.enterContext(LocalService(device="cpu"))
        model = self.enterContext(Model([RIGHT]))
        episode = self.play(service.url, model, UNPREPARABLE)
        self.assertFalse(episode.ok)
        self.assertEqual(episode.errors[0].type, "TaskFailed")
        self.assertIn("no finite error bound", episode.errors[0].message)
        self.assertFalse(any(trace.rewards for trace in episode.traces))

    def test_tasks_come_from_the_service(self):
        service = self.enterContext(LocalService(device="cpu"))
        os.environ["LATHE_URL"] = service.url
        self.addCleanup(os.environ.pop, "LATHE_URL")
        config = vf.taskset_config_type("lathe-kernels").model_validate({"id": "lathe-kernels"})
        names = [task.data.name for task in vf.load_taskset(config)]
        self.assertIn("softmax_rows", names)

    def test_prompts_of_named_tasks_have_their_text(self):
        pages = self.enterContext(TaskPages())
        config = vf.taskset_config_type("lathe-kernels").model_validate(
            {"id": "lathe-kernels", "url": pages.url, "tasks": ["softmax_rows"]})
        (task,) = vf.load_taskset(config)
        self.assertIn((TASKS / "softmax_rows.toml").read_text().strip(), task.data.prompt)


if __name__ == "__main__":
    unittest.main()
