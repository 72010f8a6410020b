"""lathe-torch beside llama.cpp on this machine's processors, in turns: tokens per second of a full batch.

engine_peers.py LATHE_TORCH MODEL.gguf [ROUNDS [THREADS]]: the file's weights should be fp32 for a comparison
at equal precision (tests/lm/parity.py makes such a file). Needs the packages of scripts/parity_requirements.txt.
Of each side's rounds the best counts; llama.cpp's is that of its fastest slot, times the slots. Prints a table
and JSON.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import xllamacpp

PROMPT, TOKENS = 16, 48


def llama(model, batch, threads):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_parallel = batch
    params.n_ctx = batch * 128
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.port = 0
    server = xllamacpp.Server(params)

    def one(slot):
        answer = server.handle_completions({
            "prompt": [300 + 7 * slot + i for i in range(PROMPT)], "n_predict": TOKENS, "temperature": 1,
            "top_k": 0, "top_p": 1, "min_p": 0, "ignore_eos": True, "cache_prompt": False})
        return answer["timings"]["predicted_per_second"]

    def measure():
        with concurrent.futures.ThreadPoolExecutor(batch) as pool:
            return batch * max(pool.map(one, range(batch)))
    return measure


def lathe(program, model, batch, threads):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, "bench", "--model", model, "--device", "cpu", "--precision", "f32",
                        "--threads", str(threads), "--batch", str(batch), "--context", str(PROMPT + TOKENS // 2),
                        "--steps", str(TOKENS - 8), "--json", file.name], check=True, stdout=subprocess.DEVNULL)
        return json.load(open(file.name))["tokens_per_second"]


def main(program, model, rounds, threads):
    rows = []
    for batch in (1, 4, 16):
        peer = llama(model, batch, threads)
        ours, theirs = [], []
        for _ in range(rounds):
            theirs.append(peer())
            ours.append(lathe(program, model, batch, threads))
        rows.append({"batch": batch, "lathe": max(ours), "llama": max(theirs)})
        print(f"batch {batch:3}: lathe-torch {max(ours):8.1f} tokens/s, llama.cpp {max(theirs):8.1f}: "
              f"{max(ours) / max(theirs):.2f} times", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    main(sys.argv[1], sys.argv[2], rounds, int(sys.argv[4]) if len(sys.argv) > 4 else len(os.sched_getaffinity(0)))
