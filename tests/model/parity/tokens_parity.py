"""Lathe's ids against the `tokenizers` library's and llama.cpp's, on texts of many kinds.

The library's tokenizer is built from the vocabulary and merges of the same GGUF file, with the steps that the model's
authors publish in tokenizer.json."""
import http.client
import json
import pathlib
import random
import sys
import tempfile
import unicodedata

import gguf
import numpy
import xllamacpp
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from probe import ask

CONTROL, USER_DEFINED = 3, 4


def field(reader, name):
    return reader.fields[name].contents()


def library_tokenizer(reader):
    """-> (Tokenizer, texts of special tokens)"""
    tokens = field(reader, "tokenizer.ggml.tokens")
    types = field(reader, "tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in field(reader, "tokenizer.ggml.merges")]
    # Every token stands in the vocabulary, so that added ones keep their ids.
    tokenizer = Tokenizer(BPE({token: id for id, token in enumerate(tokens)}, merges))
    tokenizer.decoder = decoders.ByteLevel()
    kind = field(reader, "tokenizer.ggml.pre")
    if kind == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    elif kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated"),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        raise SystemExit(f"no steps for '{kind}'")
    for token, type in zip(tokens, types):
        if type in (CONTROL, USER_DEFINED):
            added = AddedToken(token, special=type == CONTROL, normalized=False)
            (tokenizer.add_special_tokens if type == CONTROL else tokenizer.add_tokens)([added])
    return tokenizer, [token for token, type in zip(tokens, types) if type == CONTROL]


def assigned_characters():
    """Those of this Python's Unicode: a later one gives some unassigned code points a category."""
    return [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]


def texts(root, specials):
    draw = random.Random(20)
    characters = assigned_characters()
    scripts = [[c for c in characters if low <= ord(c) <= high] for low, high in (
        (0x20, 0x7e), (0xa0, 0x24f), (0x250, 0x36f), (0x370, 0x5ff), (0x600, 0x8ff), (0x900, 0xdff), (0xe00, 0x10ff),
        (0x1100, 0x1fff), (0x2000, 0x2bff), (0x3040, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7ff), (0x1f300, 0x1faff))]
    spaces = [chr(code) for code in (9, 10, 11, 12, 13, 28, 31, 0x20, 0x85, 0xa0, 0x1680, 0x180e, 0x2002, 0x200b, 0x2028, 0x2029, 0x3000)]
    words = ["the", "don't", "I'LL", "we'Ve", "it'\u017fo", "'re", "x'", "HTTPServer", "float32", "0x7fff", "1234567", "\u0661\u0662",
             "\u00bd", "\u2167", "e\u0301", "\u0915\u093c", "\ufb01", "\U0001f469\u200d\U0001f4bb", "</s>", "==", "->", "//", "();", "\\n", "#include",
             "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "   \n", "\u00a0"]
    lines = [line for path in sorted(root.rglob("*")) if path.suffix in (".cpp", ".h", ".md", ".cuh", ".toml", ".py", ".sh")
             and "build" not in path.parts for line in [path.read_text(errors="replace")]]
    code = "\n".join(lines)
    out = []
    for _ in range(3000):  # code and prose, cut anywhere
        start = draw.randrange(len(code))
        out.append(code[start:start + draw.choice((10, 60, 300, 1500))])
    for _ in range(1500):
        out.append("".join(draw.choices(characters, k=draw.randrange(1, 60))))
    for _ in range(2000):
        out.append("".join(draw.choices(draw.choice(scripts) + [" "] * 20, k=draw.randrange(1, 80))))
    for _ in range(1500):
        out.append("".join(draw.choice(spaces) * draw.choice((1, 1, 2, 3, 9)) if draw.random() < 0.7 else draw.choice("aZ9.'\u00e9\u4e2d")
                           for _ in range(draw.randrange(1, 30))))
    for _ in range(2500):
        out.append("".join(draw.choice(words) + draw.choice(("", " ", "", "'s")) for _ in range(draw.randrange(1, 25))))
    for _ in range(1000):  # special tokens, whole and cut
        parts = [draw.choice(specials)[:draw.choice((99, 99, 5))] + draw.choice(("", " ", "\n", "user")) for _ in range(draw.randrange(1, 6))]
        out.append("".join(parts))
    for _ in range(500):
        out.append(bytes(draw.randrange(256) for _ in range(draw.randrange(1, 80))).decode("latin-1"))
    for length in (1000, 20000, 200000):
        out += ["a" * length, " " * length, "ab\n" * length, "9" * length, "\u0301" * length, "=" * length]
    return out


def differences(name, texts, ours, theirs):
    wrong = [i for i in range(len(texts)) if ours[i] != theirs[i]]
    for i in wrong[:5]:
        print(f"{name}: {texts[i][:200]!r}\n  Lathe {ours[i][:40]}\n  other {theirs[i][:40]}")
    print(f"{name}: {len(texts) - len(wrong)} of {len(texts)} texts have equal ids ({sum(map(len, theirs))} tokens)")
    return len(wrong)


def llama_tokens(model, texts, parse):
    """llama.cpp's ids by its HTTP server on loopback."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.n_ctx = 256
    parameters.warmup = False
    parameters.port = 0
    server = xllamacpp.Server(parameters)
    ids = []
    address = server.listening_address.removeprefix("http://")
    connection = http.client.HTTPConnection(address)
    for text in texts:
        body = json.dumps({"content": text, "add_special": False, "parse_special": parse})
        connection.request("POST", "/tokenize", body, {"Content-Type": "application/json"})
        ids.append(json.loads(connection.getresponse().read())["tokens"])
    return ids


def our_tokens(model, texts, parse):
    frames = [text.encode() for text in texts]
    answers = ask(["tokens", str(model), "parse" if parse else "text"], frames)
    return [numpy.frombuffer(answer, dtype=numpy.int32).tolist() for answer in answers]


def main():
    root, *models = map(pathlib.Path, sys.argv[1:])
    failures = 0
    for model in models:
        reader = gguf.GGUFReader(model)
        library, specials = library_tokenizer(reader)
        drawn = texts(root, specials)
        # The library's NFC is that of an older Unicode: it does not sort marks that came later.
        same_nfc = [text for text in drawn
                    if library.normalizer is None
                    or library.normalizer.normalize_str(text) == unicodedata.normalize("NFC", text)]
        print(f"{model.name}: {len(drawn) - len(same_nfc)} texts left out, which `tokenizers` normalises by an older Unicode")
        for parse in (True, False):
            what = "special tokens parsed" if parse else "special tokens as text"
            library.encode_special_tokens = not parse
            theirs = [encoding.ids for encoding in library.encode_batch(same_nfc, add_special_tokens=False)]
            failures += differences(f"{model.name}, {what}, tokenizers", same_nfc, our_tokens(model, same_nfc, parse), theirs)
            with tempfile.TemporaryDirectory() as folder:  # the same tokenizer as the library's own file
                library.save(folder + "/tokenizer.json")
                failures += differences(f"{model.name}, {what}, tokenizer.json", same_nfc, our_tokens(folder, same_nfc, parse), theirs)
            # llama.cpp does not normalise, does not merge across bytes that the vocabulary lacks, and takes every "</s>"
            # for a special token.
            normal = [text for text, ids in zip(same_nfc, theirs) if "</s>" not in text
                      and library.decode(ids, skip_special_tokens=False) == text][::2]
            failures += len(normal) < 4000
            failures += differences(f"{model.name}, {what}, llama.cpp", normal, our_tokens(model, normal, parse),
                                    llama_tokens(model, normal, parse))
        failures += len(same_nfc) < 10000
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
