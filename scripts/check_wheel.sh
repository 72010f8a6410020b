#!/bin/sh
# check_wheel.sh WHEEL: installs it into an empty environment, and has a kernel judged by what it brought.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=/usr/bin/python3
[ -x $python ] || python=python3
$python -m venv "$folder/env"
if ! "$folder/env/bin/pip" -q install "$1"; then
  echo "check_wheel.sh: the Python registry is out of reach; httpx is Debian's" >&2
  $python -m venv --clear --system-site-packages "$folder/env"
  "$folder/env/bin/pip" -q install --no-index --no-deps "$1"
fi
cd "$folder"
env/bin/lathe tasks list | grep -q '^softmax_rows '
env/bin/python - <<'END'
from lathe_gym import Client, LocalService, Scoring, Submission
from lathe_gym.env.trl import reward_function

KERNEL = """/*lathe
[[launch]]
kernel = "relu"
items = "n"
args = ["x", "y"]
*/
#include <lathe/cpu.h>

extern "C" void relu(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;
}
"""
with LocalService(device="cpu") as service, Client(service.url) as client:
    right, wrong = client.evaluate_all([
        Submission("relu", KERNEL, depth="verify"),
        Submission("relu", KERNEL.replace("x[i] > 0", "x[i] > 1"), depth="verify")])
    reward = reward_function(client, Scoring("correct", depth="verify"), "relu")
    assert reward(completions=[KERNEL, "no kernel"]) == [1, 0]
print(right.verdict, wrong.verdict, sep="\n")
assert right.verdict.outcome == "PASS" and wrong.verdict.outcome == "WRONG"
END
