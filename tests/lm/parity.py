"""Compares lathe-torch with llama.cpp on one file whose weights are all fp32.

parity.py LATHE_TORCH MODEL.gguf...: for each model, dequantises it to fp32 once (into the current folder), then
  - logits: after several texts, log-probabilities of the 2000 most probable tokens are within 1e-3 of the largest;
  - text: greedy continuations of 200 tokens are identical, up to a place where the two most probable tokens are
    closer than 1e-3.
Exits with 1 and the place of the first difference. Needs the packages of scripts/parity_requirements.txt.
"""

import os
import subprocess
import sys

import gguf
import numpy
import xllamacpp

TOLERANCE = 1e-3
TOKENS = 200
TOP = 2000
THREADS = 1  # of each: threads that wait for one another do badly on a busy machine
PROMPTS = [
    "The capital of France is",
    "// A CUDA kernel that adds two vectors of n floats\n__global__ void add(",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a small village by the sea, there lived an old fisherman who",
    "#include <vector>\n\nint main() {\n  std::vector<int> numbers = {3, 1, 2};\n",
]


def dequantised(path):
    """The path of the file with every weight in fp32."""
    target = os.path.basename(path).removesuffix(".gguf") + ".f32.gguf"
    if os.path.exists(target):
        return target
    reader = gguf.GGUFReader(path)
    text = lambda key: bytes(reader.fields[key].parts[-1]).decode()
    writer = gguf.GGUFWriter(target + ".partial", text("general.architecture"))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, inner)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        writer.add_tensor(tensor.name, values.reshape([int(n) for n in reversed(tensor.shape)]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.rename(target + ".partial", target)
    return target


class Llama:
    """llama.cpp with everything in fp32."""

    def __init__(self, path):
        params = xllamacpp.CommonParams()
        params.model.path = path
        params.n_ctx = 1024
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.no_extra_bufts = True
        params.port = 0
        self.server = xllamacpp.Server(params)

    def complete(self, tokens, count, top):
        """[[(token, log-probability), most probable first] for each place], and the tokens taken."""
        answer = self.server.handle_completions({
            "prompt": tokens, "n_predict": count, "temperature": 0, "logprobs": top, "top_k": 0, "top_p": 1,
            "min_p": 0, "cache_prompt": False})
        places = answer["choices"][0]["logprobs"]["content"]
        probable = [[(t["id"], t["logprob"]) for t in place["top_logprobs"]] for place in places]
        return probable, [place["id"] for place in places]


def run(program, *arguments):
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def tokens_of(program, path, text):
    return [int(t) for t in run(program, "tokens", "--model", path, "--text", text).split(",")]


def compare(program, path):
    model = dequantised(path)
    llama = Llama(model)
    worst = 0.0
    for prompt in PROMPTS:
        tokens = tokens_of(program, model, prompt)
        ids = ",".join(map(str, tokens))
        common = ["--model", model, "--threads", str(THREADS)]
        run(program, "logits", *common, "--tokens", ids, "--out", "logits.bin")
        rows = numpy.fromfile("logits.bin", dtype=numpy.float32).astype(numpy.float64).reshape(len(tokens), -1)
        log_probs = rows - rows.max(1, keepdims=True)
        log_probs -= numpy.log(numpy.exp(log_probs).sum(1, keepdims=True))
        for length in sorted({1, 2, len(tokens) // 2, len(tokens)}):
            theirs = llama.complete(tokens[:length], 1, TOP)[0][0]
            ours = log_probs[length - 1][[token for token, _ in theirs]]
            theirs = numpy.array([value for _, value in theirs])
            error = abs(ours - theirs).max() / abs(theirs).max()
            worst = max(worst, error)
            if error > TOLERANCE:
                sys.exit(f"{path}: {prompt!r}, {length} tokens: log-probabilities differ by {error:.2e}")
        text = run(program, "generate", *common, "--device", "cpu", "--batch", "1", "--prompt-tokens", ids,
                   "--max-tokens", str(TOKENS), "--temperature", "0", "--show-tokens")
        ours = [int(t) for t in text.strip().split(",")]
        places, theirs = llama.complete(tokens, TOKENS, 2)
        # llama.cpp leaves the token that ends the text out.
        for i, (a, b) in enumerate(zip(ours, theirs)):
            if a == b:
                continue
            gap = places[i][0][1] - places[i][1][1]
            if gap < TOLERANCE:
                print(f"  {prompt!r}: a tie at token {i} (gap {gap:.1e})")
                break
            sys.exit(f"{path}: {prompt!r}: token {i} is {a}, llama.cpp's {b}; gap {gap:.2e}")
        else:
            if abs(len(ours) - len(theirs)) > 1:
                sys.exit(f"{path}: {prompt!r}: {len(ours)} tokens, llama.cpp {len(theirs)}")
        print(f"  {prompt!r}: {min(len(ours), len(theirs))} tokens alike", flush=True)
    print(f"{os.path.basename(path)}: log-probabilities within {worst:.1e} of the largest")


if __name__ == "__main__":
    for file in sys.argv[2:]:
        compare(sys.argv[1], file)
