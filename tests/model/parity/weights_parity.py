"""Dequantisation, and weights under their canonical names, against the `gguf` and `safetensors` packages: bit for bit."""
import json
import pathlib
import sys
import tempfile

import gguf
import numpy
import safetensors.numpy
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

from probe import ask

FORMATS = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q5_0, Type.Q5_1, Type.Q4_0, Type.Q4_1, Type.Q4_K, Type.Q5_K, Type.Q6_K]
LAYER_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
               "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
               "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def same_bits(ours, theirs):
    ours = numpy.frombuffer(ours, dtype=numpy.uint32)
    theirs = numpy.ascontiguousarray(theirs, dtype=numpy.float32).view(numpy.uint32).ravel()
    return ours.size == theirs.size and bool((ours == theirs).all())


def stored(draw, type, elements):
    """Bytes that `gguf` made of random numbers of many sizes where it can, and random blocks with finite scales."""
    block, size = gguf.GGML_QUANT_SIZES[type]
    values = (draw.standard_normal(elements) * 10.0 ** draw.uniform(-6, 3, elements)).astype(numpy.float32)
    try:
        yield quantize(values.reshape(-1, 256), type).tobytes()
    except NotImplementedError:
        pass
    blocks = draw.integers(0, 256, (elements // block, size), dtype=numpy.uint8)
    halves = {Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.Q4_1: [0, 2], Type.Q5_1: [0, 2], Type.F32: [2], Type.BF16: [0]}
    for at in halves.get(type, [0]):
        blocks[:, at + 1] &= 0xfb if type not in (Type.F32, Type.BF16) else 0xbf  # never all ones in the exponent
    yield blocks.tobytes()


def check_formats():
    draw = numpy.random.default_rng(22)
    failures = 0
    for type in FORMATS:
        frames = [frame for _ in range(20) for frame in stored(draw, type, 256 * 64)]
        answers = ask(["dequantise", type.name], frames)
        wrong = sum(not same_bits(answer, dequantize(numpy.frombuffer(frame, dtype=numpy.uint8), type))
                    for frame, answer in zip(frames, answers))
        print(f"{type.name}: {len(frames) - wrong} of {len(frames)} arrays of 16384 elements are equal")
        failures += wrong
    return failures


def canonical(name):
    fixed = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}
    if name in fixed:
        return fixed[name]
    _, layer, middle, kind = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[middle]}.{kind}"


def unpermuted(weights, heads):
    """The inverse of what converters do to q and k of Llama models."""
    rows = weights.shape[0]
    return weights.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2).reshape(weights.shape)


def check_gguf(path):
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"].contents()
    heads = {"attn_q": reader.fields[f"{architecture}.attention.head_count"].contents(),
             "attn_k": reader.fields[f"{architecture}.attention.head_count_kv"].contents()}
    answers = ask(["weights", str(path)], [canonical(tensor.name).encode() for tensor in reader.tensors])
    wrong = 0
    for tensor, answer in zip(reader.tensors, answers):
        weights = dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1].tolist())
        middle = tensor.name.split(".")[-2]
        if architecture == "llama" and middle in heads:
            weights = unpermuted(weights, heads[middle])
        wrong += not same_bits(answer, weights)
    print(f"{path.name}: {len(answers) - wrong} of {len(answers)} weights are equal")
    return wrong


def check_safetensors(folder):
    """A Qwen3 model in two shards, written by the `safetensors` package in its three formats."""
    draw = numpy.random.default_rng(23)
    hidden, heads, kv_heads, head_dim, ffn, vocab = 64, 4, 2, 32, 96, 100
    shapes = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    for layer in range(2):
        for name, shape in {"input_layernorm": (hidden,), "self_attn.q_proj": (heads * head_dim, hidden),
                            "self_attn.k_proj": (kv_heads * head_dim, hidden), "self_attn.v_proj": (kv_heads * head_dim, hidden),
                            "self_attn.q_norm": (head_dim,), "self_attn.k_norm": (head_dim,),
                            "self_attn.o_proj": (hidden, heads * head_dim), "post_attention_layernorm": (hidden,),
                            "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden), "mlp.down_proj": (hidden, ffn)}.items():
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    config = {"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
              "head_dim": head_dim, "intermediate_size": ffn, "vocab_size": vocab, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
              "hidden_act": "silu", "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    kinds = [numpy.float32, numpy.float16]
    weights = {name: draw.standard_normal(shape).astype(kinds[i % 2]) for i, (name, shape) in enumerate(shapes.items())}
    names = sorted(weights)
    where = {}
    for shard, part in enumerate((names[::2], names[1::2])):
        file = f"model-0000{shard + 1}-of-00002.safetensors"
        safetensors.numpy.save_file({name: weights[name] for name in part}, folder / file, {"format": "pt"})
        where |= {name: file for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    answers = ask(["weights", str(folder)], [name.encode() for name in names])
    wrong = sum(not same_bits(answer, weights[name].astype(numpy.float32)) for name, answer in zip(names, answers))
    print(f"safetensors: {len(names) - wrong} of {len(names)} weights are equal")
    return wrong


def main():
    failures = check_formats()
    for path in sys.argv[1:]:
        failures += check_gguf(pathlib.Path(path))
    with tempfile.TemporaryDirectory() as folder:
        failures += check_safetensors(pathlib.Path(folder))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
