#!/usr/bin/env python3
"""Three linear layers with an exported liblathe_gemm.so as an operation of PyTorch, against nn.Linear.

    PYTHONPATH=python mlp.py PACKAGE [--rows 128,1024,8192] [--width 4096] [--hidden 16384] [--rounds 11] [--wall 30]

fp16, without bias, with ReLU between the layers; both have the same weights. The results are compared before anything
is timed. Device time: a CUDA graph of at least 20 passes of each, replayed in an order drawn anew each round. Wall
clock: around a pass and a synchronisation, in five blocks. One line a number of rows; a ratio above 1 is ours.
"""

import argparse
import random
import statistics
import sys
import time

import torch
from torch import nn

import lathe_gym


class Linears(nn.Module):
    """What nn.Linear does, by torch.ops.lathe.gemm: its weights are rows of K, and stay as they are."""

    def __init__(self, of):
        super().__init__()
        self.weights = [one.weight.detach() for one in of if isinstance(one, nn.Linear)]

    def forward(self, x):
        for i, weight in enumerate(self.weights):
            x = torch.ops.lathe.gemm(x if i == 0 else torch.relu(x), weight.t())
        return x


def difference(ours, theirs, x):
    """Of either from fp32 layers whose results are rounded between them, in parts of the largest element."""
    exact = x.float()
    for i, weight in enumerate(ours.weights):
        exact = (exact if i == 0 else torch.relu(exact)) @ weight.float().t()
        exact = exact.half().float()
    return [((module(x).float() - exact).abs().max() / exact.abs().max()).item() for module in (ours, theirs)]


def record(module, x, passes):
    for _ in range(3):
        module(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(passes):
            module(x)
    return graph


def device_us(modules, x, rounds, passes=20):
    graphs = [record(module, x, passes) for module in modules]
    times = [[] for _ in graphs]
    for round_ in range(rounds + 1):
        for at in random.sample(range(len(graphs)), len(graphs)):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graphs[at].replay()
            end.record()
            end.synchronize()
            if round_ > 0:
                times[at].append(begin.elapsed_time(end) * 1e3 / passes)
    return [statistics.median(one) for one in times]


def wall_us(modules, x, passes):
    times = [[] for _ in modules]
    for _ in range(5):
        for at in random.sample(range(len(modules)), len(modules)):
            for i in range(-(-passes // 5) + 1):
                begin = time.perf_counter_ns()
                modules[at](x)
                torch.cuda.synchronize()
                if i > 0:  # the first finds what the other left
                    times[at].append((time.perf_counter_ns() - begin) / 1e3)
    return [statistics.median(one) for one in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("package")
    parser.add_argument("--rows", default="128,1024,8192")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--wall", type=int, default=30)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("mlp.py: there is no GPU", file=sys.stderr)
        return 77
    lathe_gym.load(options.package).register()
    torch.manual_seed(1)
    width, hidden = options.width, options.hidden
    extents = ((width, hidden), (hidden, hidden), (hidden, width))
    theirs = nn.Sequential()
    for i, (inputs, outputs) in enumerate(extents):
        if i > 0:
            theirs.append(nn.ReLU())
        theirs.append(nn.Linear(inputs, outputs, bias=False, device="cuda", dtype=torch.float16))
    ours = Linears(theirs)
    print("rows,ours_difference,torch_difference,ours_us,torch_us,device_ratio,wall_ours_us,wall_torch_us,wall_ratio")
    with torch.no_grad():
        for rows in map(int, options.rows.split(",")):
            x = torch.randn(rows, width, device="cuda", dtype=torch.float16)
            off = difference(ours, theirs, x)
            if off[0] > max(2e-3, 2 * off[1]):
                print(f"mlp.py: {rows} rows: ours is {off[0]:.2e} off, torch {off[1]:.2e}", file=sys.stderr)
                return 1
            device, wall = device_us((ours, theirs), x, options.rounds), wall_us((ours, theirs), x, options.wall)
            print(f"{rows},{off[0]:.2e},{off[1]:.2e},{device[0]:.2f},{device[1]:.2f},{device[1] / device[0]:.3f},"
                  f"{wall[0]:.2f},{wall[1]:.2f},{wall[1] / wall[0]:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
