"""What the tests here share."""

import os

from lathe_gym import LocalService

FAKE_WORKER = os.environ["LATHE_FAKE_WORKER"]
TASK = {
    "toml": """
name = "tiny"
dims = { n = [1, 4096] }
tensor = [{ name = "x", shape = ["n"] }]
graph = "y = add(x, x)"
baselines = ["naive"]
shape = [{ name = "small", n = 2048 }]
"""
}
RIGHT = """/*lathe
[[launch]]
kernel = "twice"
items = "n"
args = ["x", "y"]
*/
#include <lathe/cpu.h>

extern "C" void twice(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + x[i];
}
"""

WRONG = RIGHT.replace("x[i] + x[i]", "x[i]")
UNPREPARABLE = {
    "toml": TASK["toml"].replace('"y = add(x, x)"', '"""\ne = exp(x)\nl = log(e)\nd = sub(l, x)\ny = div(x, d)"""')
}
"""Most of its results have no error bound, as the divisor may be 0."""
MODULE_TASK = {
    "toml": """
name = "twice_module"
dims = { n = [1, 64] }
output = [{ name = "y", shape = ["n"] }]
shape = [{ n = 16 }]
tensor = [{ name = "x", shape = ["n"] }]
reference = { kind = "process", source = "twice.py" }
""",
    "files": {"twice.py": "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + x\n"},
}
RIGHT_MODULE = """\"\"\"lathe
[host]
language = "python"
entry = "ModelNew"
\"\"\"
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return 2 * x
"""
WRONG_MODULE = RIGHT_MODULE.replace("2 * x", "3 * x")


def fake_service(*more: str) -> LocalService:
    """Of workers whose verdicts follow from the text; "machine_fails" in it is INFRA."""
    return LocalService(device="cpu", more=["--worker-program", FAKE_WORKER, "--workers", "2", *more])
