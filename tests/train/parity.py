#!/usr/bin/env python3
"""parity.py LATHE_TORCH : losses and gradients of lathe-torch train against transformers and peft.

Small random models of each architecture take the same AdamW steps in both, whole and through an adapter; the first
step's gradient norm and every step's loss must agree within fp32 noise, and so must the weights that come out. The
adapter that Lathe writes is read by peft. Exits 77 where transformers, peft or torch are not installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from peft import PeftModel
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

STEPS = 6
RATE = 3e-3
NOISE = 2e-4  # of fp32 sums in another order, through a few steps of AdamW


def make_model(kind, folder):
    torch.manual_seed(3)
    shape = dict(vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
                 num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=kind != "llama",
                 attention_dropout=0.0)
    if kind == "qwen3":
        config = transformers.Qwen3Config(head_dim=16, **shape)
    elif kind == "qwen2":
        config = transformers.Qwen2Config(**shape)
    else:
        config = transformers.LlamaConfig(**shape)
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(folder)
    return folder


def make_examples():
    generator = torch.Generator().manual_seed(5)
    draw = lambda count: torch.randint(0, 96, (count,), generator=generator).tolist()
    examples = []
    for index in range(4):
        answer = draw(5 + 3 * index)
        mask = [1] * len(answer)
        mask[1] = 0
        examples.append({"prompt_tokens": draw(3 + index), "answer_tokens": answer, "loss_mask": mask})
    return examples


def reference(model, examples):
    """Each example alone, so that packing is tested too; the loss is the mean over all answer tokens that count."""
    weights = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in weights if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in weights if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    total = sum(sum(example["loss_mask"]) for example in examples)
    losses, norms = [], []
    for _ in range(STEPS):
        loss = 0
        for example in examples:
            tokens = torch.tensor([example["prompt_tokens"] + example["answer_tokens"]])
            log_probs = torch.log_softmax(model(tokens).logits[0].float(), -1)
            start = len(example["prompt_tokens"])
            for place, (token, counts) in enumerate(zip(example["answer_tokens"], example["loss_mask"])):
                if counts:
                    loss = loss - log_probs[start + place - 1, token] / total
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(weights, 1.0)))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses, norms


def close(name, ours, theirs, noise=NOISE):
    worst = max(abs(a - b) / max(1e-3, abs(b)) for a, b in zip(ours, theirs))
    print(f"  {name}: largest relative difference {worst:.1e}")
    if len(ours) != len(theirs) or not worst < noise:
        sys.exit(f"{name} differs: {ours} and {theirs}")


def close_tensors(name, ours, theirs):
    if set(ours) != set(theirs):
        sys.exit(f"{name}: names differ: {sorted(set(ours) ^ set(theirs))[:4]}")
    worst = max(float((ours[key] - theirs[key]).abs().max()) for key in ours)
    moved = RATE * STEPS
    print(f"  {name}: largest difference {worst:.1e}, steps of up to {moved:.1e}")
    if not worst < 0.02 * moved:
        sys.exit(f"{name} differs")


def train(lathe, model, data, folder, adapter):
    recipe = folder / "recipe.toml"
    table = "[adapter]\nrank = 4\nalpha = 8\ntargets = [\"q_proj\", \"k_proj\", \"up_proj\", \"down_proj\"]\n"
    recipe.write_text(f"[steps]\nrow_tokens = 64\nrows = 4\nrows_at_once = 1\nsteps = {STEPS}\n"
                      f"[optimizer]\nlearning_rate = {RATE}\ndecay = \"constant\"\nwarmup_fraction = 0.0\n"
                      "weight_decay = 0.1\n" + (table if adapter else ""))
    subprocess.run([lathe, "train", recipe, "--model", model, "--data", data, "--out", folder / "out", "--device",
                    "cpu"], check=True, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines], [line["gradient_norm"] for line in lines]


def compare(lathe, kind, root):
    model = make_model(kind, root / "model")
    examples = make_examples()
    data = root / "data.jsonl"
    data.write_text("".join(json.dumps(example) + "\n" for example in examples))
    load = lambda: transformers.AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager").float()

    print(f"{kind}, all weights")
    (root / "full").mkdir()
    losses, norms = train(lathe, model, data, root / "full", False)
    whole = load()
    their_losses, their_norms = reference(whole, examples)
    close("losses", losses, their_losses)
    close("gradient norms", norms, their_norms, 2e-3)
    ours = transformers.AutoModelForCausalLM.from_pretrained(root / "full/out/model").float()
    close_tensors("weights", dict(ours.named_parameters()), dict(whole.named_parameters()))

    # Both start from the adapter that Lathe draws: a run of a rate of 0 leaves it as it was.
    print(f"{kind}, an adapter")
    (root / "adapter").mkdir()
    losses, norms = train(lathe, model, data, root / "adapter", True)
    (root / "start").mkdir()
    global RATE
    kept, RATE = RATE, 0.0
    train(lathe, model, data, root / "start", True)
    RATE = kept
    theirs = PeftModel.from_pretrained(load(), root / "start/out/adapter", is_trainable=True).float()
    their_losses, their_norms = reference(theirs, examples)
    close("losses", losses, their_losses)
    close("gradient norms", norms, their_norms, 2e-3)
    ours = PeftModel.from_pretrained(load(), root / "adapter/out/adapter").float()
    pick = lambda peft: {name: p for name, p in peft.named_parameters() if "lora" in name}
    if not any(float(p.abs().max()) > 0 for name, p in pick(ours).items() if "lora_B" in name):
        sys.exit("the adapter is still nothing")
    close_tensors("adapter as peft reads it", pick(ours), pick(theirs))


def main():
    lathe = pathlib.Path(sys.argv[1]).resolve()
    for kind in ["llama", "qwen2", "qwen3"]:
        with tempfile.TemporaryDirectory() as root:
            compare(lathe, kind, pathlib.Path(root))
    print("equal")


main()
