"""Python candidates under this interpreter's PyTorch: what a process reference is in its worker depends on the version."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TASKS = Path(os.environ["LATHE_SOURCE"]) / "tests" / "conformance" / "host" / "tasks"
FRONT = '"""lathe\n[host]\nlanguage = "python"\nentry = "ModelNew"\n"""\n'
OFF = "\n\nclass ModelNew(Model):\n    def forward(self, *inputs):\n        return super().forward(*inputs) + 0.01\n"


class HostTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def verdict_of(self, task, text):
        candidate = Path(self.folder.name) / "candidate.py"
        candidate.write_text(FRONT + text)
        run = subprocess.run(
            ["lathe", "eval", "--device", "host:cpu", "--depth", "verify", "--json", "-", "--store", self.folder.name,
             str(TASKS / f"{task}.toml"), str(candidate)],
            env={**os.environ, "LATHE_PYTHON": sys.executable}, capture_output=True, text=True)
        self.assertIn(run.returncode, (0, 1), run.stderr)
        return json.loads(run.stdout)[0]["verdict"]

    def test_a_module_is_right_as_its_own_kernel(self):
        for task in ("linear", "loss", "largest"):
            with self.subTest(task):
                module = (TASKS / f"{task}.py").read_text()
                self.assertEqual(self.verdict_of(task, module + "\n\nModelNew = Model\n"), "PASS")

    def test_another_answer_is_wrong(self):
        module = (TASKS / "linear.py").read_text()
        self.assertEqual(self.verdict_of("linear", module + OFF), "WRONG")


if __name__ == "__main__":
    unittest.main()
