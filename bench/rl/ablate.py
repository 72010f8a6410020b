#!/usr/bin/env python3
"""Trains recipes/rl/schedule.toml with one part changed at a time, ten seeds each, on a table of measured schedules,
and prints what each comes to on the tasks that were held out: bench/rl/ablate.py LATHE TABLE.jsonl OUT [--seeds N].

A cell is the mean over seeds, with its 95% interval (Student's t), of the geometric mean over held-out tasks of the
best speedup among k evaluations (lower bounds over each task's fastest peer), as `lathe train` writes it into table.md.
Runs that OUT has already are not repeated."""
import argparse
import concurrent.futures
import math
import pathlib
import re
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUDGETS = (1, 4, 16, 64)
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 14: 2.145, 19: 2.093}
VARIANTS = {
    "trloo (the recipe)": {},
    "shuffled rewards (control)": {"rl.shuffle_rewards": True},
    "reinforce": {"rl.estimator": "reinforce"},
    "rloo": {"rl.estimator": "rloo"},
    "grpo": {"rl.estimator": "grpo"},
    "grpo without std": {"rl.estimator": "grpo_no_std"},
    "best of four": {"rl.estimator": "best_of_4"},
    "a tenth of the entropy": {"loss.entropy": 0.002},
    "reward speedup, not its logarithm": {"rl.reward": "speedup"},
    "reward dr_kernel": {"rl.reward": "dr_kernel"},
    "reward dr_kernel_profiled (PR)": {"rl.reward": "dr_kernel_profiled"},
    "launched share as a filter (PRS)": {"filters.reject_unlaunched": True},
    "PR and PRS": {"rl.reward": "dr_kernel_profiled", "filters.reject_unlaunched": True},
    "mismatch rejected by turn": {"filters.mismatch": "turn"},
    "100 steps of imitation first": {"imitation.steps": 100},
    "3 turns, trloo": {"rl.turns": 3, "rl.samples": 6},
    "3 turns, rloo": {"rl.turns": 3, "rl.samples": 6, "rl.estimator": "rloo"},
    "2 exemplars": {"rl.exemplars": 2},
    "rollouts of 5 bits": {"actor.rollout_bits": 5},
    "rollouts of 5 bits, mismatch rejected by turn": {"actor.rollout_bits": 5, "filters.mismatch": "turn"},
}


def toml(recipe):
    def value(x):
        return str(x).lower() if isinstance(x, bool) else f'"{x}"' if isinstance(x, str) else repr(x)

    return "".join(f"[{table}]\n" + "".join(f"{key} = {value(x)}\n" for key, x in keys.items()) + "\n"
                   for table, keys in recipe.items())


def recipe_of(changes, steps):
    recipe = tomllib.loads((ROOT / "recipes/rl/schedule.toml").read_text())
    if steps:
        recipe["rl"]["steps"] = steps
    for name, x in changes.items():
        table, key = name.split(".")
        recipe.setdefault(table, {})[key] = x
    return toml(recipe)


def bests(table, entrant):
    """The entrant's geometric means by budget, of the first group of tasks."""
    part = table.split("## By evaluations")[1]
    row = re.search(rf"^\| {re.escape(entrant)} \|(.*)$", part, re.M).group(1)
    return [float(x) for x in re.findall(r"([\d.]+)x \[", row)]


def interval(values):
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    deviation = math.sqrt(sum((x - mean) ** 2 for x in values) / (len(values) - 1))
    return f"{mean:.3f} ± {T_95.get(len(values) - 1, 2.0) * deviation / math.sqrt(len(values)):.3f}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("lathe")
    options.add_argument("table")
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--steps", type=int, default=0, help="in place of the recipe's")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--without", default="", help="leave out variants whose names have this in them")
    chosen = options.parse_args()
    variants = [name for name in VARIANTS if not chosen.without or chosen.without not in name]

    def train(job):
        variant, seed = job
        folder = chosen.out / re.sub(r"\W+", "_", variant) / str(seed)
        if (folder / "table.md").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "recipe.toml").write_text(recipe_of(VARIANTS[variant], chosen.steps))
        done = subprocess.run([chosen.lathe, "train", folder / "recipe.toml", "--table", chosen.table, "--out", folder,
                               "--seed", str(seed), "--resume"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{variant}, seed {seed}: {done.stderr[-2000:]}")

    jobs = [(variant, seed) for seed in range(1, chosen.seeds + 1) for variant in variants]
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        list(pool.map(train, jobs))

    print(f"| {chosen.seeds} seeds | " + " | ".join(f"best of {k}" for k in BUDGETS) + " |")
    print("|---" * (len(BUDGETS) + 1) + "|")
    for entrant in ("default", "random", "evolve"):
        row(entrant, chosen, next(iter(VARIANTS)), entrant)
    for variant in variants:
        row(variant, chosen, variant, "learned")
    row("trloo, draws with repeats", chosen, next(iter(VARIANTS)), "learned_samples")
    row("trloo inside evolve", chosen, next(iter(VARIANTS)), "learned_in_evolve")


def row(title, chosen, variant, entrant):
    folder = chosen.out / re.sub(r"\W+", "_", variant)
    tables = [(folder / str(seed) / "table.md").read_text() for seed in range(1, chosen.seeds + 1)]
    columns = zip(*(bests(table, entrant) for table in tables))
    print(f"| {title} | " + " | ".join(interval(column) for column in columns) + " |")


if __name__ == "__main__":
    main()
