"""The service's pages of tasks, as a stand-in has them."""

import http.server
import json
import os
import threading
from pathlib import Path

from common import MODULE_TASK

TASKS = Path(os.environ["LATHE_SOURCE"]) / "tasks"


class TaskPages(http.server.ThreadingHTTPServer):
    """GET /v1/tasks, and GET /v1/tasks/NAME unless `has_texts` is false, as of services of before."""

    def __init__(self, has_texts: bool = True):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.has_texts = has_texts
        texts = {file.stem: {"toml": file.read_text()} for file in sorted(TASKS.glob("*.toml"))}
        texts["twice_module"] = MODULE_TASK
        self.tasks = [{"name": name, "digest": f"{at:064x}", **text} for at, (name, text) in enumerate(texts.items())]
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def answer_to(self, path):
        if path == "/v1/tasks":
            return 200, {"items": [{"name": task["name"], "digest": task["digest"]} for task in self.tasks]}
        name = path.removeprefix("/v1/tasks/")
        for task in self.tasks:
            if self.has_texts and name in (task["name"], task["digest"]):
                return 200, task
        said = f"there is no task of that name, '{name}'" if self.has_texts else "there is no such page"
        return 404, {"error": {"code": "not_found", "message": said, "request_id": "1"}}


class _Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, document = self.server.answer_to(self.path)
        payload = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_):
        pass
