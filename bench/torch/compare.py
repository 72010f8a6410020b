#!/usr/bin/env python3
"""Times Lathe's catalogue, PyTorch and torch.compile on one GPU, in one process, on the same data.

compare.py LATHE [--operations softmax,gelu] [--candidates 12] [--without-compile] [--out DIR]

A contender's calls are recorded as one CUDA graph over several sets of buffers, so that no call finds its data in
L2, which is overwritten before each graph. Contenders take turns. The catalogue's best kernel is chosen in rounds
of its own; the times that count come from rounds after that. torch.compile is the better of its default mode and
max-autotune-no-cudagraphs.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from lathe_kernel import LatheKernel
from operations import OPERATIONS, inputs

BYTES_OF_A_GRAPH = 256 << 20
CALLS = (3, 24)
CHOOSING_ROUNDS, FINALISTS, MEASURING_ROUNDS = 9, 5, 15
RECORDINGS = 3  # a graph's memory is worth some percent: each contender gets several
MODES = {"compile": None, "compile_autotune": "max-autotune-no-cudagraphs"}


def lathe(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"lathe {arguments[0]} failed: {done.stderr}")
    return done.stdout + done.stderr


def shape_text(dims):
    return ",".join(f"{dim}={extent}" for dim, extent in dims.items())


def task_text(name, dims):
    return OPERATIONS[name].task + '[[shape]]\nname = "only"\n' + "".join(f"{k} = {v}\n" for k, v in dims.items())


def build(options, name, number, dims):
    """Proposes and compiles candidates unless that was done before; the folder with what came of it."""
    folder = options.out / "kernels" / f"{name}_{number}"
    if next(folder.glob("*.json"), None):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    shape = shape_text(dims)
    path = folder / "task.toml"
    path.write_text(task_text(name, dims))
    lathe(options.lathe, "propose", path, "--device", "cuda", "--count", options.candidates, "--shape", shape,
          "--out", folder)
    log = lathe(options.lathe, "build", path, *sorted(folder.glob("*.cu")), "--shape", shape, "--out", folder,
                *(["--arch", options.arch] if options.arch else []))
    if log.strip():
        print(log, flush=True)
    return folder


class Bench:
    def __init__(self):
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.flush = torch.empty(2 * l2, dtype=torch.uint8, device="cuda")
        self.stream = torch.cuda.Stream()

    def record(self, call, slots):
        """One graph of `call` on each slot, with all that must live as long."""
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                call(0)
        self.stream.synchronize()
        graph, kept = torch.cuda.CUDAGraph(), [call]
        with torch.cuda.graph(graph, stream=self.stream):
            for slot in range(slots):
                kept.append(call(slot))
        return graph, kept

    def microseconds(self, graph, calls):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush.zero_()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / calls

    def rounds(self, graphs, calls, count):
        """The median time of each contender, who take turns."""
        times = {name: [] for name in graphs}
        for _ in range(count):
            for name, (graph, _) in graphs.items():
                times[name].append(self.microseconds(graph, calls))
        return {name: statistics.median(each) for name, each in times.items()}

    def repeated(self, recorders, calls, count):
        """The median over several recordings of each contender, in memory of their own."""
        times, kept = {name: [] for name in recorders}, []
        for _ in range(RECORDINGS):
            kept.append({name: recorder() for name, recorder in recorders.items()})
            for name, us in self.rounds(kept[-1], calls, count).items():
                times[name].append(us)
        return {name: statistics.median(each) for name, each in times.items()}


def error(found, reference):
    """The largest deviation over the reference's largest magnitude; infinite where one is not a number."""
    scale = reference.abs().max().item() or 1.0
    worst = (found.double() - reference).abs().max().item() / scale
    return worst if math.isfinite(worst) else math.inf


def correct_kernels(folder, slots, reference, allowed):
    kernels, wrong = {}, []
    for path in sorted(folder.glob("*.json"), key=lambda p: int(p.stem.rsplit("_", 1)[1])):
        kernel = LatheKernel(path)
        outputs = kernel.outputs()
        for output in outputs:
            output.fill_(float("nan") if output.is_floating_point() else -1)
        kernel(slots[0], outputs)
        torch.cuda.synchronize()
        if error(outputs[0], reference) <= allowed:
            kernels[path.stem] = kernel
        else:
            wrong.append(path.stem)
    return kernels, wrong


def recorded_kernel(bench, kernel, slots):
    outputs = [kernel.outputs() for _ in slots]
    return bench.record(lambda slot: kernel(slots[slot], outputs[slot]), len(slots))


def compare(options, bench, peak, name, number, dims, folder):
    operation = OPERATIONS[name]
    generator = torch.Generator("cuda").manual_seed(17)
    document = json.loads(next(folder.glob("*.json")).read_text())
    bytes_min = LatheKernel(next(folder.glob("*.json"))).bytes_min()
    calls = max(CALLS[0], min(CALLS[1], math.ceil(BYTES_OF_A_GRAPH / bytes_min)))
    slots = [inputs(document, generator) for _ in range(calls)]
    doubles = [t.double() if t.is_floating_point() else t for t in slots[0]]
    reference = operation.function(*doubles)
    del doubles
    allowed = max(4 * error(operation.function(*slots[0]), reference), 2e-6)
    kernels, wrong = correct_kernels(folder, slots, reference, allowed)
    del reference
    times = {}
    for stem, kernel in kernels.items():
        times.update(bench.rounds({stem: recorded_kernel(bench, kernel, slots)}, calls, CHOOSING_ROUNDS))
    if not times:
        return {"operation": name, "dims": dims, "bytes": bytes_min, "kernel": None, "wrong": wrong}
    finalists = sorted(times, key=times.get)[:FINALISTS]
    again = bench.repeated({stem: lambda stem=stem: recorded_kernel(bench, kernels[stem], slots)
                            for stem in finalists}, calls, CHOOSING_ROUNDS)
    best = min(again, key=again.get)
    if options.verbose:
        for stem in sorted(times, key=times.get)[:options.verbose]:
            knobs = next(l for l in (folder / f"{stem}.cu").read_text().splitlines() if l.startswith("knobs"))
            print(f"    {times[stem]:9.2f} us  {stem}  {knobs}", flush=True)
    recorders = {"lathe": lambda: recorded_kernel(bench, kernels[best], slots),
                 "eager": lambda: bench.record(lambda slot: operation.function(*slots[slot]), calls)}
    if not options.without_compile:
        torch._dynamo.reset()
        for mode, given in MODES.items():
            compiled = torch.compile(operation.function, dynamic=False, mode=given)
            recorders[mode] = lambda compiled=compiled: bench.record(lambda slot: compiled(*slots[slot]), calls)
    final = bench.repeated(recorders, calls, MEASURING_ROUNDS)
    compiled = [final[mode] for mode in MODES if mode in final]
    return {"operation": name, "dims": dims, "bytes": bytes_min, "kernel": best, "wrong": wrong, "calls": calls,
            "us": final["lathe"], "tb_per_s": bytes_min / final["lathe"] / 1e6,
            "share_of_peak": bytes_min / final["lathe"] / 1e6 / peak, "all_us": final, "chosen_from_us": times,
            "over_compile": min(compiled) / final["lathe"] if compiled else None,
            "over_eager": final["eager"] / final["lathe"], "fused": operation.fused}


def measure_peak(options, bench):
    """TB/s of reads from DRAM, of 2 GiB."""
    count, folder = 1 << 29, options.out / "kernels" / "peak"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.toml").write_text(task_text("gelu", {"n": count}))
    source = Path(__file__).parent / "peak.cu"
    print(lathe(options.lathe, "build", folder / "task.toml", source, "--shape", f"n={count}", "--out", folder), end="")
    kernel = LatheKernel(folder / "peak.json")
    data, result = [torch.zeros(count, device="cuda")], [torch.zeros(16, device="cuda")]
    graph = bench.record(lambda _: kernel(data, result), 1)
    return 4 * count / bench.rounds({"peak": graph}, 1, 15)["peak"] / 1e6


def table(rows):
    lines = ["| operation | size | MiB | us | TB/s | of peak | over torch.compile | over eager | kernel |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row["over_compile"] or row["over_eager"]):
        size = " x ".join(str(extent) for extent in row["dims"].values())
        over = f"{row['over_compile']:.2f}" if row["over_compile"] else "-"
        lines.append(f"| {row['operation']} | {size} | {row['bytes'] / 2**20:.0f} | {row['us']:.1f} | "
                     f"{row['tb_per_s']:.2f} | {100 * row['share_of_peak']:.0f}% | {over} | "
                     f"{row['over_eager']:.2f} | {row['kernel'].rsplit('_', 1)[1]} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe", help="the program")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--sizes", default="0,1,2", help="small 0, medium 1, large 2")
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--without-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--arch", default="", help="as for lathe build")
    parser.add_argument("--verbose", type=int, default=0, help="list so many candidates of each operation")
    parser.add_argument("--out", type=Path, default=Path("compare"))
    options = parser.parse_args()
    work = [(name, number, OPERATIONS[name].sizes[number]) for name in options.operations.split(",")
            for number in map(int, options.sizes.split(","))]
    start = time.monotonic()
    with ThreadPoolExecutor(6) as pool:
        folders = list(pool.map(lambda item: build(options, *item), work))
    print(f"built in {time.monotonic() - start:.1f} s", flush=True)
    bench = Bench()
    peak = measure_peak(options, bench)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {peak:.2f} TB/s read from DRAM", flush=True)
    rows = []
    for (name, number, dims), folder in zip(work, folders):
        row = compare(options, bench, peak, name, number, dims, folder)
        if row["kernel"] is None:
            print(f"{name:16} {str(dims):36} no correct kernel: {row['wrong']}", flush=True)
            continue
        rows.append(row)
        times = ", ".join(f"{contender} {us:.1f}" for contender, us in row["all_us"].items())
        print(f"{name:16} {str(dims):36} {100 * row['share_of_peak']:5.1f}%  {times} us  {row['kernel']}"
              + (f"  WRONG: {row['wrong']}" if row["wrong"] else ""), flush=True)
        torch.cuda.empty_cache()
        document = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "peak_tb_per_s": peak,
                    "rows": rows}
        (options.out / "compare.json").write_text(json.dumps(document, indent=1))
        (options.out / "compare.md").write_text(table(rows) + "\n")
    print(f"{time.monotonic() - start:.0f} s in all\n\n{table(rows)}")


if __name__ == "__main__":
    main()
