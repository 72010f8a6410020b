"""A kernel that `lathe build` wrote, run beside PyTorch on PyTorch's current stream."""

import ctypes
import json
from pathlib import Path

import torch

MAX_DYNAMIC_SHARED = 8  # CUfunction_attribute
SHARED_WITHOUT_ASKING = 48 << 10
COOPERATIVE, CLUSTER, PROGRAMMATIC = 2, 4, 6  # CUlaunchAttributeID
DTYPES = {"fp32": torch.float32, "int32": torch.int32, "int64": torch.int64, "bool": torch.bool}

driver = ctypes.CDLL("libcuda.so.1")


def check(code, what):
    if code != 0:
        raise RuntimeError(f"{what}: CUDA driver error {code}")


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)),
                ("attribute_count", ctypes.c_uint)]


def three(values):
    return (ctypes.c_uint * 3)(*(list(values) + [1, 1, 1])[:3])


class LatheKernel:
    def __init__(self, path):
        self.document = json.loads(Path(path).read_text())
        image = (Path(path).parent / self.document["object"]).read_bytes()
        self.module = ctypes.c_void_p()
        check(driver.cuModuleLoadData(ctypes.byref(self.module), image), "cuModuleLoadData")
        self.functions = [self._function(step) for step in self.document["steps"]]
        self.scratch = [torch.full((max(1, each["bytes"]),), 0 if each["init"] != "poison" else 255,
                                   dtype=torch.uint8, device="cuda") for each in self.document["scratch"]]

    def _function(self, step):
        function = ctypes.c_void_p()
        name = step["kernel"].encode()
        check(driver.cuModuleGetFunction(ctypes.byref(function), self.module, name), step["kernel"])
        if step["smem"] > SHARED_WITHOUT_ASKING:
            check(driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, step["smem"]), "shared memory")
        return function

    def outputs(self):
        return [torch.empty(each["shape"], dtype=DTYPES[each["dtype"]], device="cuda")
                for each in self.document["outputs"]]

    def __call__(self, inputs, outputs):
        for scratch, declared in zip(self.scratch, self.document["scratch"]):
            if declared["init"] == "zero":
                scratch.zero_()
        for function, step in zip(self.functions, self.document["steps"]):
            self._launch(function, step, inputs, outputs)

    def _launch(self, function, step, inputs, outputs):
        tensors = {"input": inputs, "output": outputs, "scratch": self.scratch}
        values = []
        for argument in step["args"]:
            (kind, value), = argument.items()
            values.append(ctypes.c_int64(value if kind == "integer" else tensors[kind][value].data_ptr()))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        attributes = []
        if step["cluster"]:
            attributes.append(Attribute(CLUSTER, 0, (ctypes.c_uint * 16)(*three(step["cluster"]))))
        if step["cooperative"]:
            attributes.append(Attribute(COOPERATIVE, 0, (ctypes.c_uint * 16)(1)))
        if step["programmatic"]:
            attributes.append(Attribute(PROGRAMMATIC, 0, (ctypes.c_uint * 16)(1)))
        array = (Attribute * max(1, len(attributes)))(*attributes)
        config = Config(three(step["grid"]), three(step["block"]), step["smem"],
                        torch.cuda.current_stream().cuda_stream, array, len(attributes))
        check(driver.cuLaunchKernelEx(ctypes.byref(config), function, pointers, None), step["kernel"])

    def bytes_min(self):
        """Every input read once and every output written once."""
        total = 0
        for tensor in self.document["inputs"] + self.document["outputs"]:
            count = 1
            for extent in tensor["shape"]:
                count *= extent
            total += count * DTYPES[tensor["dtype"]].itemsize
        return total
