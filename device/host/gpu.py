"""The GPU in a candidate's process: its context, and the windows through which calls get inputs and give outputs.

Like all that runs beside a candidate it is no defence: the broker copies what comes in and what goes out.
"""

import ctypes
import os
import resource

import torch

DEVICE_MEMORY = 1
READ, READ_WRITE = 1, 3
FILE_DESCRIPTOR = 1
DEATH_SIGNAL, KILL = 1, 9
DUMPABLE = 4
OWN_FILES = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/devices", "/proc/driver")


class Access(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int), ("access", ctypes.c_int)]


class Bytes:
    """Device memory in the form that torch takes from other libraries."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def ask(driver, function, *arguments):
    code = getattr(driver, function)(*arguments)
    if code:
        raise RuntimeError("%s: error %d" % (function, code))


def map_memory(driver, descriptor, size, access):
    """Another process's memory at an address of this one."""
    handle, address = ctypes.c_uint64(), ctypes.c_uint64()
    ask(driver, "cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), FILE_DESCRIPTOR)
    ask(driver, "cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0),
        ctypes.c_uint64(0), ctypes.c_uint64(0))
    ask(driver, "cuMemMap", address, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
    ask(driver, "cuMemSetAccess", address, ctypes.c_size_t(size), ctypes.byref(Access(DEVICE_MEMORY, 0, access)),
        ctypes.c_size_t(1))
    return address.value


class Windows:
    """Of a process that only builds there are none."""

    device = "cuda"
    address = None  # the host cannot write there
    watch = None  # of its kernels

    def __init__(self, descriptors, sizes):
        driver = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)  # Triton's launchers look there
        self.memory = [
            torch.as_tensor(Bytes(map_memory(driver, descriptor, size, access), size), device="cuda")
            for descriptor, size, access in zip(descriptors, sizes, (READ, READ_WRITE))]
        self.nothing = (ctypes.c_uint64 * 2)()

    def view(self, dtype, spec):
        return part(self.memory[0], dtype, spec)

    def publish(self, results, specs, dtypes):
        for got, spec in zip(results, specs):
            part(self.memory[1], dtypes[spec["dtype"]], spec).copy_(got)
        torch.cuda.synchronize()
        return self.nothing, 0


def part(memory, dtype, spec):
    return memory[spec["offset"]:spec["offset"] + spec["bytes"]].view(dtype).view(spec["shape"])


def own_data_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))


def device_files():
    named = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"] + ["nvidia%d" % number for number in range(64)]
    return [path for path in ("/dev/" + name for name in named) if os.path.exists(path)]


def hide_memory():
    """From processes of the same user, as children are. A child shows its own again: its driver reads there."""
    ctypes.CDLL(None).prctl(DUMPABLE, 0, 0, 0, 0)


def names(paths):
    return (ctypes.c_char_p * (len(paths) + 1))(*(path.encode() for path in paths), None)


def start(program, uses_gpu, make_watch=None):
    """Makes the context, which a driver can do only while it may look its process up, unless the process needs none, and
    what watches its kernels, if anything."""
    library = ctypes.CDLL(None)
    library.prctl(DEATH_SIGNAL, KILL, 0, 0, 0)
    if os.getppid() != program.zygote:  # it ended before this could follow it
        os._exit(1)
    library.prctl(DUMPABLE, 1, 0, 0, 0)
    windows = None
    if uses_gpu:
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        windows = Windows(program.windows, program.load.get("windows", ()))
        windows.watch = make_watch and make_watch()
    for descriptor in program.windows:
        os.close(descriptor)
    limit = own_data_bytes() + program.load["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    readable = list(OWN_FILES) + list(program.extensions.values()) + [program.given] + program.readable
    devices = (device_files() if uses_gpu else []) + ["/dev/null", "/proc/self"]
    error = program.library.lathe_host_restrict(names(readable), names(devices), program.scratch.encode())
    if error:
        raise RuntimeError("files cannot be denied to the candidate: " + os.strerror(error))
    return windows
