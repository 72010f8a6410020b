"""Who computes: how long the device runs kernels that the candidate's own modules launch, and how long others.

CUPTI says how long each kernel took and by which call it was launched, the frames of that call which library made it: what
lies in PyTorch's and NVIDIA's folders is a library, all else the candidate's. Names of kernels say nothing.

Like all that runs beside a candidate this is no defence: the process could forge it.
"""

import ctypes
import os
import struct

import torch

from gpu import ask

KERNELS = 10  # CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
DOMAINS = (1, 2)  # the driver's calls and the runtime's
BUFFER_BYTES = 1 << 20
MOST_FRAMES = 64
RECORD = struct.Struct("<16xQQ60xI")  # CUpti_ActivityKernel: start, end, correlationId
ON_THE_WAY = ("libcuda.so", "libcudart", "libcupti")
LIBRARIES = ("libcu", "libnv", "libtorch", "libc10")

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
WANTS_BUFFER = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
                                ctypes.POINTER(ctypes.c_size_t))
GIVES_BUFFER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class Call(ctypes.Structure):
    """CUpti_CallbackData, as far as it is read."""

    _fields_ = [("site", ctypes.c_int), ("function", ctypes.c_char_p), ("parameters", ctypes.c_void_p),
                ("result", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("context", ctypes.c_void_p),
                ("context_id", ctypes.c_uint32), ("correlation_data", ctypes.c_void_p),
                ("correlation", ctypes.c_uint32)]


class Totals:
    """Nanoseconds and numbers of kernels: of the candidate's own, of libraries', and of those that nobody is known of, as
    replayed graphs."""

    def __init__(self):
        self.ns = {"own": 0, "library": 0, "unknown": 0}
        self.kernels = dict.fromkeys(self.ns, 0)

    def add(self, other):
        for kind in self.ns:
            self.ns[kind] += other.ns[kind]
            self.kernels[kind] += other.kernels[kind]

    def text(self):
        return " ".join("%d %d" % (self.ns[kind], self.kernels[kind]) for kind in self.ns)


class Maps:
    """Which file an address of this process belongs to."""

    def __init__(self):
        self.read()

    def read(self):
        with open("/proc/self/maps") as lines:
            fields = [line.split(None, 5) for line in lines]
        self.ranges = [(*(int(end, 16) for end in entry[0].split("-")), entry[5].strip() if len(entry) > 5 else "")
                       for entry in fields]

    def find(self, address):
        return next((path for begin, end, path in self.ranges if begin <= address < end), None)

    def path_of(self, address):
        path = self.find(address)
        if path is None:  # mapped since
            self.read()
            path = self.find(address)
        return path or ""


def launcher_of(paths):
    """Of the files of a call's frames, the innermost first: the first one behind CUDA's own. None where CUDA has none
    there."""
    behind = False
    for path in paths:
        passing = os.path.basename(path).startswith(ON_THE_WAY)
        if behind and not passing and path:
            return path
        behind = behind or passing
    return None


def kind_of(path, library_folders):
    if path is None:
        return "unknown"
    name = os.path.basename(path)
    return "library" if name.startswith(LIBRARIES) or path.startswith(library_folders) else "own"


class Watch:
    """Sees all kernels of the process from its making on."""

    def __init__(self):
        self.maps = Maps()
        cupti = next((path for *_, path in self.maps.ranges if os.path.basename(path).startswith("libcupti.so")), None)
        if cupti is None:
            raise RuntimeError("this PyTorch brings no CUPTI, which says whose kernels compute")
        self.cupti = ctypes.CDLL(cupti)
        self.backtrace = ctypes.CDLL(None).backtrace
        self.frames = (ctypes.c_void_p * MOST_FRAMES)()
        torch_folder = os.path.dirname(os.path.abspath(torch.__file__))
        self.library_folders = (torch_folder + os.sep, os.path.join(os.path.dirname(torch_folder), "nvidia") + os.sep)
        self.launches, self.kinds, self.records, self.buffers = {}, {}, [], {}
        self.callbacks = (CALLBACK(self.called), WANTS_BUFFER(self.give_buffer), GIVES_BUFFER(self.take_buffer))
        ask(self.cupti, "cuptiActivityRegisterCallbacks", *self.callbacks[1:])
        subscriber = ctypes.c_void_p()
        ask(self.cupti, "cuptiSubscribe", ctypes.byref(subscriber), self.callbacks[0], None)
        for domain in DOMAINS:
            ask(self.cupti, "cuptiEnableDomain", ctypes.c_uint32(1), subscriber, ctypes.c_int(domain))
        ask(self.cupti, "cuptiActivityEnable", ctypes.c_int(KERNELS))

    def called(self, _, domain, function, data):
        call = ctypes.cast(data, ctypes.POINTER(Call)).contents
        is_launch = self.launches.get((domain, function))
        if is_launch is None:
            is_launch = self.launches[domain, function] = b"Launch" in (call.function or b"")
        if not is_launch or call.site != 0 or call.correlation in self.kinds:
            return
        count = self.backtrace(self.frames, MOST_FRAMES)
        kind = kind_of(launcher_of(self.maps.path_of(at) for at in self.frames[:count] if at), self.library_folders)
        self.kinds[call.correlation] = "unknown" if b"Graph" in call.function else kind

    def give_buffer(self, buffer, size, most_records):
        memory = (ctypes.c_uint64 * (BUFFER_BYTES // 8))()  # aligned as records are
        address = ctypes.addressof(memory)
        self.buffers[address] = memory
        buffer[0], size[0], most_records[0] = address, BUFFER_BYTES, 0

    def take_buffer(self, _, __, buffer, ___, valid):
        record = ctypes.c_void_p()
        while self.cupti.cuptiActivityGetNextRecord(ctypes.c_void_p(buffer), ctypes.c_size_t(valid),
                                                    ctypes.byref(record)) == 0:
            if ctypes.c_uint32.from_address(record.value).value == KERNELS:
                self.records.append(RECORD.unpack(ctypes.string_at(record.value, RECORD.size)))
        self.buffers.pop(buffer, None)

    def take(self):
        """What has run since it was asked last."""
        torch.cuda.synchronize()
        ask(self.cupti, "cuptiActivityFlushAll", ctypes.c_uint32(0))
        totals = Totals()
        for begin, end, correlation in self.records:
            kind = self.kinds.get(correlation, "unknown")
            totals.ns[kind] += end - begin
            totals.kernels[kind] += 1
        self.records, self.kinds = [], {}
        return totals
