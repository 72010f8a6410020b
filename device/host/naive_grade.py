"""The naive grader for Python candidates: how graders of this kind usually work, with their usual mistakes.

A zygote in the jail: each candidate has a fork of it. Used for the conformance suite alone, to show that its exploits are
exploits.
"""

import json
import os
import socket
import struct  # noqa: F401 (candidates of the suite use it)
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402

import extensions  # noqa: E402
import triton_support  # noqa: E402

WARM_UPS = 3
CALLS = 20
DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "int32": torch.int32,
    "int64": torch.int64,
}


def make(namespace, entry, device):
    torch.manual_seed(42)
    return namespace[entry](*namespace["get_init_inputs"]()).eval().to(device)


def mean_seconds(model, inputs, device):
    for _ in range(WARM_UPS):
        model(*inputs)
    if device == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        for _ in range(CALLS):
            model(*inputs)
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3 / CALLS
    begin = time.perf_counter()
    for _ in range(CALLS):
        model(*inputs)
    return (time.perf_counter() - begin) / CALLS


def grade(document, work, device):
    # One namespace: what the candidate defines replaces what the task has defined.
    namespace = {"__name__": "task"}
    with open(os.path.join(work, "reference.py"), "w") as file:
        file.write(document["reference"]["text"])
    exec(document["reference"]["text"], namespace)
    for name, value in document["dims"].items():
        if name in namespace:
            namespace[name] = value
    exec(document["text"], namespace)
    reference = make(namespace, document["reference"]["entry"], device)
    model = make(namespace, document["entry"], device)
    torch.manual_seed(7)
    if "get_inputs" in namespace and namespace.get("SHRUNK"):
        inputs = namespace["get_inputs"]()
    else:
        inputs = [torch.randn(spec["shape"], dtype=DTYPES[spec["dtype"]]) for spec in document["inputs"]]
    inputs = [value.to(device) for value in inputs]
    with torch.no_grad():
        honest_seconds = mean_seconds(reference, inputs, device)
        expected = reference(*inputs)
        del expected  # its memory is free, and still holds the answer
        got = model(*inputs)
        seconds = mean_seconds(model, inputs, device)
        time.sleep(0.1)
        expected = reference(*inputs)
        if not torch.allclose(got, expected, rtol=1e-2, atol=1e-2, equal_nan=True):
            return "FAIL the values are wrong"
    return "PASS %.3f" % (honest_seconds / max(seconds, 1e-9))


def answer(channel, files, work, device):
    with os.fdopen(files[0], "rb") as payload:
        payload.seek(0)
        document = json.loads(payload.read())
        document.update(document["sections"][0])
    compiled = {}
    for number, request in enumerate(document["extensions"]):
        path = os.path.join(work, "naive%d.so" % number)
        with os.fdopen(files[1 + number], "rb") as source:
            source.seek(0)
            with open(path, "wb") as target:
                target.write(source.read())
        compiled[request] = path
    extensions.install(compiled)
    if device == "cuda":
        triton_support.install(compiled)
    try:
        line = grade(document, work, device)
    except Exception as error:
        line = "FAIL %s" % str(error)[:200].replace("\n", " ")
    channel.send(line.encode())


channel = None


def main():
    global channel
    work, device = sys.argv[2], "cuda" if sys.argv[3] == "gpu" else "cpu"
    torch.set_num_threads(1)
    if device == "cuda":
        triton_support.warm_up(os.path.join(work, "scratch"))
    channel = socket.socket(fileno=3)
    while True:
        channel.send(b"ready")
        _, files, _, _ = socket.recv_fds(channel, 96 * 1024, 64)
        if not files:
            return
        child = os.fork()  # what is imported serves all candidates, and nothing else of one the next
        if child == 0:
            answer(channel, files, work, device)
            return
        for file in files:
            os.close(file)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
