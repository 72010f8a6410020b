"""examples/cuda/matmul_fp16.cu against torch.matmul (cuBLAS), fp16 with fp32 sums, on the machine's first GPU.

    python3 bench/matmul_fp16.py [MxNxK ...]

Both run interleaved in one process on the same random tensors: CUDA graphs of 20 calls over rotating buffers, events
around a warm replay, the median of 8. It needs torch; NVRTC compiles the kernel.
"""

import ctypes
import pathlib
import random
import statistics
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
CALLS, ROUNDS = 20, 8
SHARED_BYTES = 4 * 49152 + 4 * 8192 + 64  # the plan's smem
SHAPES = ["512x512x512", "2048x2048x2048", "4096x4096x4096", "8192x8192x4096", "4096x4096x256", "1000x1048x520"]


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


def check(code, what):
    if code != 0:
        raise RuntimeError(f"{what}: error {code}")


def open_first(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    raise RuntimeError(f"none of {names}")


def compile_example():
    nvrtc = open_first(["libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13", "libnvrtc.so.12"])
    source = (ROOT / "examples/cuda/matmul_fp16.cu").read_bytes()
    device = next(f for f in (ROOT / "device", ROOT / "share/lathe/device") if f.exists())
    options = [b"-std=c++20", b"-default-device", b"-arch=sm_90a", f"-I{device}".encode()]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"matmul.cu", 0, None, None), "NVRTC")
    check(nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)), "NVRTC")
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "NVRTC")
    cubin = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, cubin), "NVRTC")
    return cubin.raw


class Example:
    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        module, self.function, self.maps = ctypes.c_void_p(), ctypes.c_void_p(), {}
        check(self.driver.cuModuleLoadData(ctypes.byref(module), compile_example()), "load")
        check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, b"matmul"), "load")
        check(self.driver.cuFuncSetAttribute(self.function, 8, SHARED_BYTES), "shared memory")
        self.pairs = torch.cuda.get_device_properties(0).multi_processor_count // 2

    def map_of(self, tensor, rows):
        """128 bytes, aligned to 64, inside a buffer that must live on."""
        memory = ctypes.create_string_buffer(192)
        address = (ctypes.addressof(memory) + 63) & ~63
        height, width = tensor.shape
        code = self.driver.cuTensorMapEncodeTiled(
            ctypes.c_void_p(address), 6, 2, ctypes.c_void_p(tensor.data_ptr()), (ctypes.c_uint64 * 2)(width, height),
            (ctypes.c_uint64 * 1)(2 * width), (ctypes.c_uint32 * 2)(64, rows), (ctypes.c_uint32 * 2)(1, 1), 0, 3, 2, 0)
        check(code, "tensor map")
        return memory, address

    def __call__(self, x, w, y):
        key = (x.data_ptr(), w.data_ptr(), y.data_ptr())
        if key not in self.maps:
            self.maps[key] = [self.map_of(x, 128), self.map_of(w, 64), self.map_of(y, 64)]
        (m, k), n = x.shape, w.shape[1]
        sizes = (ctypes.c_int * 3)(m, n, k)
        places = [address for _, address in self.maps[key]] + [ctypes.addressof(sizes) + 4 * i for i in range(3)]
        cluster = Attribute(4)
        cluster.value[0], cluster.value[1], cluster.value[2] = 2, 1, 1
        tiles = -(-m // 256) * -(-n // 256)
        config = Config((2 * min(self.pairs, tiles), 1, 1), (384, 1, 1), SHARED_BYTES,
                        torch.cuda.current_stream().cuda_stream, ctypes.pointer(cluster), 1)
        check(self.driver.cuLaunchKernelEx(ctypes.byref(config), self.function, (ctypes.c_void_p * 6)(*places), None),
              "launch")


def graph_of(call, tensors):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for some in tensors:
            call(*some)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(CALLS):
            call(*tensors[i % len(tensors)])
    return graph


def microseconds(graph):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / CALLS


def measure(contenders, m, n, k):
    def draw(*shape, scale=1.0):
        return (torch.randn(*shape, device="cuda") * scale).half()

    copies = max(2, min(6, int(3e8 / (2 * (m * k + k * n + m * n))) + 1))
    tensors = [(draw(m, k), draw(k, n, scale=0.05), draw(m, n)) for _ in range(copies)]
    x, w, y = tensors[0]
    wanted = x.float() @ w.float()
    errors = {}
    for name, call in contenders.items():
        y.fill_(float("nan"))
        call(x, w, y)
        errors[name] = (y.float() - wanted).abs().max().item()
    graphs = {name: graph_of(call, tensors) for name, call in contenders.items()}
    times = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name in random.sample(list(graphs), len(graphs)):
            times[name].append(microseconds(graphs[name]))
    for name, all_times in times.items():
        median = statistics.median(all_times)
        print(f"| {m}x{n}x{k} | {name} | {median:.1f} | {min(all_times):.1f} | {2e-6 * m * n * k / median:.0f} | "
              f"{errors[name]:.2g} |", flush=True)


def main():
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.zeros(1, device="cuda")
    contenders = {"example": Example(), "torch": lambda x, w, y: torch.matmul(x, w, out=y)}
    print("| shape | kernel | us | least us | TFLOP/s | largest error |\n|---|---|---|---|---|---|")
    for shape in sys.argv[1:] or SHAPES:
        measure(contenders, *map(int, shape.split("x")))


if __name__ == "__main__":
    main()
