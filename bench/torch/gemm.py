#!/usr/bin/env python3
"""Times torch.matmul and an exported liblathe_gemm.so in the same rounds, and what a call costs the host.

    gemm.py PACKAGE [--sizes 64x64x64,...] [--rounds 11] [--wall 30 [--gap-ms 10]] [--out FILE.csv]

fp16, B as rows of K (as torch.nn.Linear keeps its weights). Device time: CUDA graphs of at least 20 calls, warm. The
library is used as it is, through ctypes: no build step. Results are compared before they are timed. --wall: also
wall clock around a call and a synchronisation, call after call (offline) and with exponential gaps (server).
"""

import argparse
import ctypes
import random
import statistics
import sys
import time

import torch

LAYOUT_TN = 1


class Lathe:
    """The C interface, on torch's tensors and current stream."""

    def __init__(self, package):
        self.library = ctypes.CDLL(f"{package}/lib/liblathe_gemm.so")
        self.library.lathe_gemm_last_error.restype = ctypes.c_char_p
        self.library.lathe_gemm_kernel.restype = ctypes.c_char_p
        self.library.lathe_gemm_kernel.argtypes = [ctypes.c_int] + 3 * [ctypes.c_int64] + [ctypes.c_int]
        pointer, extent = ctypes.c_void_p, ctypes.c_int64
        self.library.lathe_hgemm.argtypes = [
            pointer, ctypes.c_int, extent, extent, extent, ctypes.c_float, pointer, extent, pointer, extent,
            ctypes.c_float, pointer, extent, ctypes.c_int, pointer]
        self.hgemm = self.library.lathe_hgemm
        # As PyTorch's own generated code asks for it: a Stream object costs a microsecond.
        self.stream, self.device = torch._C._cuda_getCurrentRawStream, torch.cuda.current_device()
        self.handle = ctypes.c_void_p()
        torch.empty(1, device="cuda")  # makes the context current, to which the handle belongs
        self.check(self.library.lathe_gemm_create(ctypes.byref(self.handle)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.lathe_gemm_last_error().decode())

    def matmul(self, a, b, out):
        """out = a @ b.T for packed fp16 matrices."""
        m, k = a.shape
        n = b.shape[0]
        status = self.hgemm(
            self.handle, LAYOUT_TN, m, n, k, 1.0, a.data_ptr(), k, b.data_ptr(), k, 0.0, out.data_ptr(), n, 0,
            self.stream(self.device))
        if status:
            self.check(status)

    def kernel(self, m, n, k):
        return self.library.lathe_gemm_kernel(LAYOUT_TN, m, n, k, 0).decode()


def record(call, calls):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph


def device_ns(graph, calls):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e6 / calls


def host_us(call, calls=200):
    """Of a call that finds its queue short, without waiting for the device."""
    call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    spent = time.perf_counter() - begin
    torch.cuda.synchronize()
    return spent / calls * 1e6


def wall_ns(calls, count, gap_ms):
    """Medians of `count` calls of each, in five blocks whose order is drawn anew."""
    times = {name: [] for name in calls}
    for _ in range(5):
        for name in random.sample(sorted(calls), len(calls)):
            for i in range(-(-count // 5) + 1):
                if gap_ms > 0:
                    time.sleep(min(5, random.expovariate(1)) * gap_ms / 1e3)
                begin = time.perf_counter_ns()
                calls[name]()
                torch.cuda.synchronize()
                if i > 0:  # the first finds what the other left
                    times[name].append(time.perf_counter_ns() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def measure(lathe, m, n, k, options):
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(n, k, device="cuda", dtype=torch.float16)
    out, expected = (torch.empty(m, n, device="cuda", dtype=torch.float16) for _ in range(2))
    calls = {"lathe": lambda: lathe.matmul(a, b, out), "torch": lambda: torch.matmul(a, b.T, out=expected)}
    for call in calls.values():
        call()
    error = (out.float() - expected.float()).norm() / expected.float().norm()
    if not error < 2e-3:
        raise RuntimeError(f"{m}x{n}x{k}: off by {error:.2e}")
    count = max(20, min(400, int(2e-4 / (2.0 * m * n * k / 5e14 + 2e-6))))
    graphs = {name: record(call, count) for name, call in calls.items()}
    times = {name: [] for name in graphs}
    for round_ in range(options.rounds + 1):
        for name in random.sample(sorted(graphs), len(graphs)):
            ns = device_ns(graphs[name], count)
            if round_ > 0:
                times[name].append(ns)
    walls = [wall_ns(calls, options.wall, gap_ms) for gap_ms in (0, options.gap_ms)] if options.wall else []
    return {name: statistics.median(values) for name, values in times.items()}, {
        name: host_us(call) for name, call in calls.items()}, walls


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package")
    parser.add_argument("--sizes", default="64x64x64,64x64x8192,512x512x512,1024x1024x1024,4096x4096x4096")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--wall", type=int, default=0, metavar="CALLS")
    parser.add_argument("--gap-ms", type=float, default=10)
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(16)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    lathe = Lathe(options.package)
    protocols = ["offline", "server"] if options.wall else []
    lines = ["m,n,k,kernel,dispatched_ns,torch_ns,dispatched_host_us,torch_host_us" +
             "".join(f",{protocol}_dispatched_ns,{protocol}_torch_ns" for protocol in protocols)]
    for size in options.sizes.split(","):
        m, n, k = (int(extent) for extent in size.split("x"))
        device, host, walls = measure(lathe, m, n, k, options)
        lines.append(f"{m},{n},{k},{lathe.kernel(m, n, k)},{device['lathe']:.1f},{device['torch']:.1f},"
                     f"{host['lathe']:.2f},{host['torch']:.2f}" +
                     "".join(f",{wall['lathe']:.0f},{wall['torch']:.0f}" for wall in walls))
        print(f"{size}: {device['torch'] / device['lathe']:.3f}x of torch.matmul, {device['lathe'] / 1e3:.2f} us; host "
              f"{host['lathe']:.2f} against {host['torch']:.2f} us" +
              "".join(f"; {protocol} {wall['torch'] / wall['lathe']:.3f}x" for protocol, wall in zip(protocols, walls)),
              flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
