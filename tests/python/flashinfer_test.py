"""FlashInfer-Bench's JSON as tasks and candidates, read as such and judged by a real gym."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from lathe_gym import Client, LocalService, Submission
from lathe_gym.flashinfer import Unsupported, candidate, task

NORM = {
    "name": "rmsnorm_d48",
    "axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 48}},
    "inputs": {
        "hidden": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"},
        "weight": {"shape": ["hidden_size"], "dtype": "float32"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"output": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"}},
    "reference": "import torch\n\ndef run(hidden, weight, eps):\n"
    "    return hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + eps) * weight\n",
}
WORKLOADS = [
    {"definition": "rmsnorm_d48", "workload": {"uuid": "a", "axes": {"batch_size": rows}, "inputs": {
        "hidden": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-5}}}}
    for rows in (8, 33, 8)
]
RETURNS = "import torch\n\ndef run(weight, hidden, eps):\n" \
    "    scale = torch.rsqrt((hidden * hidden).mean(-1, keepdim=True) + eps)\n    return hidden * scale * weight\n"
WRITES = {
    "pkg/main.py": "from __future__ import annotations\nfrom pkg.scale import scale_of\n\n"
    "def run(hidden, weight, eps, output):\n    output.copy_(hidden * scale_of(hidden, eps) * weight)\n",
    "pkg/scale.py": "import torch\n\ndef scale_of(x, eps):\n    return torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)\n",
}


def solution(entry: str, sources: "dict[str, str]", **more: object) -> "dict[str, object]":
    return {"name": "mine", "definition": "rmsnorm_d48", "author": "me",
            "spec": {"language": "python", "target_hardware": ["cpu"], "entry_point": entry, **more},
            "sources": [{"path": path, "content": text} for path, text in sources.items()]}


class Translation(unittest.TestCase):
    def test_what_is_not_said_or_not_there_is_refused_with_a_reason(self):
        pages = {**NORM, "inputs": {**NORM["inputs"], "pages": {"shape": ["batch_size"], "dtype": "int32"}}}
        for definition, workloads, why in (
            (NORM, [], "give workloads"),
            (NORM, [{"axes": {"batch_size": 8}}], "'eps' has no value"),
            (NORM, WORKLOADS + [{"axes": {"batch_size": 8}, "inputs": {"eps": {"type": "scalar", "value": 1}}}], "differs"),
            (pages, WORKLOADS, "whole numbers"),
            ({**NORM, "outputs": {"output": {"shape": ["batch_size"], "dtype": "float4_e2m1"}}}, WORKLOADS, "float4"),
        ):
            with self.assertRaisesRegex(Unsupported, why):
                task(definition, workloads)
        drawn = task(pages, WORKLOADS, {"pages": 'role = "index", gen = { kind = "index", limit = 7 }'})
        self.assertIn("limit = 7", drawn["toml"])
        for wrong, why in (
            (solution("main.cu::run", {"main.cu": ""}), "Python module"),
            (solution("other.py::run", {"main.py": ""}), "no source other.py"),
            (solution("main.py::run", {"main.py": ""}, build_commands=["make"]), "build commands"),
            ({**solution("main.py::run", {"main.py": ""}), "definition": "gemm"}, "solves 'gemm'"),
        ):
            with self.assertRaisesRegex(Unsupported, why):
                candidate(NORM, wrong)

    def test_each_extent_is_a_shape_once(self):
        toml = task(NORM, WORKLOADS)["toml"]
        self.assertEqual(toml.count("[[shape]]"), 2)
        self.assertIn("batch_size = [1, 66]", toml)

    def test_the_program_writes_files_or_says_what_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            (here / "d.json").write_text(json.dumps(NORM))
            (here / "w.jsonl").write_text("\n".join(map(json.dumps, WORKLOADS)))
            (here / "s.json").write_text(json.dumps(solution("main.py::run", {"main.py": RETURNS})))
            command = [sys.executable, "-m", "lathe_gym.flashinfer", str(here / "d.json"), "--out", str(here / "out")]
            done = subprocess.run(command + ["--workloads", str(here / "w.jsonl"), "--solutions", str(here / "s.json")])
            self.assertEqual(done.returncode, 0)
            self.assertEqual({path.name for path in (here / "out").iterdir()},
                             {"rmsnorm_d48.toml", "reference.py", "mine.py"})
            (here / "other.jsonl").write_text(json.dumps({"definition": "gemm", "workload": WORKLOADS[0]}))
            (here / "list.jsonl").write_text("[]")
            known = ["--workloads", str(here / "w.jsonl")]
            for wrong, why in (
                (["--workloads", str(here / "none")], "cannot be read"),
                (["--workloads", str(here / "list.jsonl")], "where an object is expected"),
                (["--workloads", str(here / "other.jsonl")], "a workload is of 'gemm', not of 'rmsnorm_d48'"),
                ([], "give workloads"),
                (known + ["--draw", "ids"], "--draw 'ids' is not INPUT=KEYS"),
                (known + ["--draw", "ids=low = 1"], "names 'ids'; the tensors are "),
                (known + ["--out", str(here / "d.json")], "cannot write to "),
            ):
                done = subprocess.run(command + wrong, capture_output=True, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn(why, done.stderr)
                self.assertNotIn("Traceback", done.stderr)


class Judged(unittest.TestCase):
    def test_right_solutions_pass_whether_they_return_or_write_and_a_wrong_one_does_not(self):
        made = task(NORM, WORKLOADS)
        texts = [candidate(NORM, solution("main.py::run", {"main.py": RETURNS})),
                 candidate(NORM, solution("pkg/main.py::run", WRITES)),
                 candidate(NORM, solution("main.py::run", {"main.py": RETURNS.replace("+ eps", "+ 0.01")}))]
        with LocalService(device="host:cpu") as service, Client(service.url) as client:
            answers = client.evaluate_all([Submission(made, text, depth="verify") for text in texts])
        outcomes = [answer.verdict.outcome if answer.verdict else answer.error for answer in answers]
        self.assertEqual(outcomes, ["PASS", "PASS", "WRONG"], [answer.verdict for answer in answers])


if __name__ == "__main__":
    unittest.main()
