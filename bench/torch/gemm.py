#!/usr/bin/env python3
"""Times torch.matmul and an exported liblathe_gemm.so in the same rounds, and what a call costs the host.

    gemm.py PACKAGE [--sizes 64x64x64,...] [--rounds 11] [--wall 30 [--gap-ms 10]] [--out FILE.csv]

fp16, B as rows of K (as torch.nn.Linear keeps its weights). Device time: CUDA graphs of at least 20 calls, warm. The
library is used as it is, through ctypes: no build step. Results are compared before they are timed. --wall: also
wall clock around a call and a synchronisation, call after call (offline) and with exponential gaps (server), of calls
that say all they want and of calls whose arguments were given before.
"""

import argparse
import ctypes
import random
import statistics
import sys
import time

import torch

LAYOUT_TN = 1
# A call of the library and one of torch.matmul; and without what can be found out before: the library's prepared
# product, and a CUDA graph of one torch.matmul.
CALLS = ("dispatched", "prepared", "torch", "torch_graph")


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
        self.library.lathe_hgemm_prepare.argtypes = self.hgemm.argtypes
        self.library.lathe_gemm_run.argtypes = [pointer, pointer]
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

    def prepared(self, a, b, out):
        """A function without arguments that does what matmul(a, b, out) does."""
        (m, k), n = a.shape, b.shape[0]
        product = ctypes.c_void_p()
        self.check(self.library.lathe_hgemm_prepare(
            self.handle, LAYOUT_TN, m, n, k, 1.0, a.data_ptr(), k, b.data_ptr(), k, 0.0, out.data_ptr(), n, 0,
            ctypes.byref(product)))
        run, stream, device = self.library.lathe_gemm_run, self.stream, self.device

        def call():
            status = run(product, stream(device))
            if status:
                self.check(status)
        return call

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
    again = torch.empty_like(out)
    calls = {"dispatched": lambda: lathe.matmul(a, b, out), "prepared": lathe.prepared(a, b, again),
             "torch": lambda: torch.matmul(a, b.T, out=expected)}
    for call in calls.values():
        call()
    calls["torch_graph"] = record(calls["torch"], 1).replay
    if not torch.equal(out, again):
        raise RuntimeError(f"{m}x{n}x{k}: a prepared product has other bits")
    error = (out.float() - expected.float()).norm() / expected.float().norm()
    if not error < 2e-3:
        raise RuntimeError(f"{m}x{n}x{k}: off by {error:.2e}")
    count = max(20, min(400, int(2e-4 / (2.0 * m * n * k / 5e14 + 2e-6))))
    graphs = {name: record(calls[name], count) for name in ("dispatched", "torch")}
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
    lines = ["m,n,k,kernel,dispatched_ns,torch_ns" + "".join(f",{name}_host_us" for name in CALLS) +
             "".join(f",{protocol}_{name}_ns" for protocol in protocols for name in CALLS)]
    for size in options.sizes.split(","):
        m, n, k = (int(extent) for extent in size.split("x"))
        device, host, walls = measure(lathe, m, n, k, options)
        lines.append(f"{m},{n},{k},{lathe.kernel(m, n, k)},{device['dispatched']:.1f},{device['torch']:.1f}" +
                     "".join(f",{host[name]:.2f}" for name in CALLS) +
                     "".join(f",{wall[name]:.0f}" for wall in walls for name in CALLS))
        print(f"{size}: {device['torch'] / device['dispatched']:.3f}x of torch.matmul, "
              f"{device['dispatched'] / 1e3:.2f} us; host " + ", ".join(f"{name} {host[name]:.2f}" for name in CALLS) +
              " us" + "".join(f"; {protocol} {wall['torch'] / wall['dispatched']:.3f}x, prepared "
                              f"{wall['torch'] / wall['prepared']:.3f}x" for protocol, wall in zip(protocols, walls)),
              flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
