#!/usr/bin/env python3
"""Runs the catalogue's kernels at shapes that no tile or vector divides, against PyTorch in fp64.

check.py LATHE [--operations softmax,gelu] [--candidates 12] [--out DIR]

Candidates are those that compare.py would try at its sizes; each runs at every shape below, twice with the same
result to the bit.
"""

import argparse
import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from compare import error, lathe, shape_text, task_text
from lathe_kernel import LatheKernel
from operations import OPERATIONS, inputs

EXTENTS = (1, 7, 129, 1000, 4097)
LARGEST = 1 << 22


def shapes(dims):
    """Every combination of extents that is not large; long and narrow ones too."""
    if len(dims) == 1:
        return [{dims[0]: extent} for extent in EXTENTS + (65535, 1 << 20)]
    pairs = list(itertools.product(EXTENTS, EXTENTS)) + [(2, 70001), (70001, 2), (3, 1 << 19), (1 << 19, 4)]
    return [dict(zip(dims, pair)) for pair in pairs if pair[0] * pair[1] <= LARGEST]


def build(options, name, number):
    """Candidates for one size, built for every shape unless that was done before; folders with their shapes."""
    operation = OPERATIONS[name]
    folder = options.out / f"{name}_{number}"
    path, new = folder / "task.toml", not folder.exists()
    built = [(dims, folder / "_".join(map(str, dims.values()))) for dims in shapes(list(operation.sizes[0]))]
    if not new:
        return built
    folder.mkdir(parents=True)
    path.write_text(task_text(name, operation.sizes[number]))
    lathe(options.lathe, "propose", path, "--device", "cuda", "--count", options.candidates, "--seed", 7, "--out", folder)
    for dims, into in built:
        lathe(options.lathe, "build", path, *sorted(folder.glob("*.cu")), "--shape", shape_text(dims), "--out", into,
              *(["--arch", options.arch] if options.arch else []))
    return built


def check(name, dims, folder):
    """The names of candidates that are wrong at the shape, and how many ran."""
    generator = torch.Generator("cuda").manual_seed(5)
    operation, wrong, count = OPERATIONS[name], [], 0
    tensors = reference = None
    for path in sorted(folder.glob("*.json")):
        kernel = LatheKernel(path)
        if reference is None:
            tensors = inputs(kernel.document, generator)
            reference = operation.function(*(t.double() if t.is_floating_point() else t for t in tensors))
            allowed = max(4 * error(operation.function(*tensors), reference), 4e-6)
        results = []
        for _ in range(2):
            outputs = kernel.outputs()
            for output in outputs:
                output.fill_(float("nan"))
            kernel(tensors, outputs)
            results.append(outputs[0])
        torch.cuda.synchronize()
        count += 1
        found = error(results[0].reshape(reference.shape), reference)
        if found > allowed or not torch.equal(results[0], results[1]):
            knobs = next(line for line in (folder.parent / f"{path.stem}.cu").read_text().splitlines() if "knobs" in line)
            wrong.append(f"{path.stem} at {dims}: {found:.3g} over {allowed:.3g}  {knobs}")
    return wrong, count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe", help="the program")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--arch", default="", help="as for lathe build")
    parser.add_argument("--out", type=Path, default=Path("check"))
    options = parser.parse_args()
    torch.zeros(1, device="cuda")  # makes the context that kernels are loaded into
    failed = 0
    work = [(name, number) for name in options.operations.split(",") for number in (0, 2)]
    with ThreadPoolExecutor(4) as pool:
        for (name, number), built in zip(work, pool.map(lambda item: build(options, *item), work)):
            results = [check(name, dims, folder) for dims, folder in built]
            wrong = [line for lines, _ in results for line in lines]
            failed += len(wrong)
            print(f"{name:16} size {number}: {sum(count for _, count in results)} runs, {len(wrong)} wrong", flush=True)
            for line in wrong[:6]:
                print("   ", line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
