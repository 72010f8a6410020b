"""A zygote of the HOST tier: imports torch, then forks one process for each block of a candidate.

Started in the jail by lathe-host-runner with the library, a folder that it may write to, "cpu" or "gpu" and what the
jail lets it read. It runs no candidate code itself. Frames come on descriptor 3, with their files:

    load       the program as JSON, control page, window of inputs, desk, outputs, samples of inputs, the parameters
               of each section, where there is a GPU both of its windows, extensions...
    unload     forget it
    given      while a child builds: the extension that it has asked for
    stop       the child is to end
    block      run calls of it, as the desk says
    step       build it, describe a reference or evaluate one: a child does it and ends
"""

import ctypes
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import torch

    import gpu
    import triton_support
    import worker
except BaseException as error:
    # In place of a greeting: what an interpreter's packages want differs, and nobody sees standard error.
    socket.socket(fileno=3).send(f"{type(error).__name__}: {error}".encode()[:1000])
    raise

MOST_FRAME_BYTES = 96 * 1024
MOST_FRAME_FDS = 64
BLOCK = struct.Struct("<BBHIq")  # kind, poison, section, calls, nanoseconds to get ready in
REPLY = struct.Struct("<iIIqq")  # wait status, ending, confined, involuntary switches, processor time


def map_shared(descriptor, writable=True):
    size = os.fstat(descriptor).st_size
    if size == 0:
        return None
    return mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))


def address_of(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class Program:
    """What a load frame brought. Its files stay open, so that each child maps what it needs."""

    def __init__(self, files, library, work, readable):
        self.files = files
        self.zygote = os.getpid()
        self.readable = readable  # None: there is no GPU
        with os.fdopen(os.dup(files[0]), "rb") as payload:
            payload.seek(0)
            self.load = json.loads(payload.read())
        self.sections = self.load["sections"]  # a shape each
        self.load.update(self.sections[0])
        self.library = library
        self.control = map_shared(files[1])
        self.desk = map_shared(files[3])
        self.outputs = map_shared(files[4])
        # A candidate's child has no mapping of these; a reference's writes its answer there.
        for private in (self.desk, self.outputs):
            if private is not None and not self.load["trusted"]:
                library.lathe_host_keep(ctypes.c_void_p(address_of(private)), ctypes.c_uint64(len(private)))
        behind = 6 + len(self.sections)
        self.samples, self.states = files[5], files[6:behind]
        self.windows = ()  # descriptors of device memory
        if "windows" in self.load:
            self.windows, behind = files[behind:behind + 2], behind + 2
        self.scratch = os.path.join(work, "scratch")  # of a child on a GPU, which may write there
        self.compiled = None
        if self.load.get("compiled"):
            with os.fdopen(os.dup(files[behind]), "rb") as packed:
                packed.seek(0)
                self.compiled = packed.read()
            behind += 1
        self.extensions, self.paths = {}, []
        for number, request in enumerate(self.load["extensions"]):
            path = os.path.join(work, "extension%d-%d.so" % (os.getpid(), number))
            with os.fdopen(os.dup(files[behind + number]), "rb") as source:
                source.seek(0)
                with open(path, "wb") as target:
                    target.write(source.read())
            self.extensions[request] = path
            self.paths.append(path)
        self.given = os.path.join(work, "given%d" % os.getpid())  # what a child's build is given while it runs
        os.makedirs(self.given, exist_ok=True)
        self.answers = 0

    def give(self, descriptor):
        self.answers += 1
        with os.fdopen(descriptor, "rb") as source, open(worker.given_path(self, self.answers), "wb") as target:
            source.seek(0)
            target.write(source.read())
        self.library.lathe_host_answer(ctypes.c_void_p(address_of(self.control)), ctypes.c_uint32(self.answers))

    def close(self):
        for path in self.paths:  # a candidate may ask for one library several times
            os.unlink(path)
        for number in range(self.answers):
            os.unlink(worker.given_path(self, number + 1))
        for descriptor in self.files:
            os.close(descriptor)
        # Unmapped here: a child of the next program must not find them.
        self.control = self.desk = self.outputs = None


class Zygote:
    def __init__(self, channel, library, work, readable):
        self.channel = channel
        self.library = library
        self.work = work
        self.readable = readable
        self.program = None

    def serve(self):
        self.channel.send(json.dumps({"torch": torch.__version__, "python": sys.version.split()[0]}).encode())
        while True:
            frame, files, _, _ = socket.recv_fds(self.channel, MOST_FRAME_BYTES, MOST_FRAME_FDS)
            if not frame:
                return
            if frame in (b"load", b"unload") and self.program:
                self.program.close()
                self.program = None
            if frame == b"unload":
                self.channel.send(b"unloaded")
            elif frame in (b"given", b"stop"):  # for a child that has ended meanwhile
                for descriptor in files:
                    os.close(descriptor)
            elif frame == b"load":
                self.program = Program(files, self.library, self.work, self.readable)
                self.channel.send(b"loaded")
            else:
                self.run(*BLOCK.unpack(frame))

    def run(self, kind, poison, section, calls, ready_ns):
        program = self.program
        if self.readable is not None:
            triton_support.clear(program.scratch)
            if program.compiled:
                try:
                    triton_support.unpack(program.compiled, program.scratch)
                except (ValueError, AttributeError, TypeError, OSError):
                    triton_support.clear(program.scratch)  # the candidate's own fault: it compiles again
        told, program.confined = os.pipe()
        child = os.fork()
        if child == 0:
            worker.main(program, chr(kind), poison, section, calls)
        os.close(program.confined)
        ending = 1
        if kind == ord("b"):
            ending = self.supervise(child, calls, ready_ns)
        else:
            self.wait(child, ready_ns)
        os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        while True:  # what else it left
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        confined = len(os.read(told, 1))  # before that no candidate code ran
        os.close(told)
        cpu_ns = int((usage.ru_utime + usage.ru_stime) * 1e9)
        self.channel.send(REPLY.pack(status, ending, confined, usage.ru_nivcsw, cpu_ns))

    def supervise(self, child, calls, ready_ns):
        program = self.program
        # Where there are windows, outputs lie in this process's memory.
        count = 0 if program.windows else len(program.load["outputs"])
        tensors = [tensor for section in program.sections for tensor in section["outputs"]] if count else []
        words = ctypes.c_uint64 * max(1, len(tensors))
        cpus = program.load["cpus"]
        return self.library.lathe_host_supervise(
            ctypes.c_void_p(address_of(program.desk)), ctypes.c_void_p(address_of(program.control)), child,
            ctypes.c_uint32(calls), ctypes.c_int64(ready_ns), ctypes.c_void_p(address_of(program.outputs)),
            ctypes.c_uint64(program.load["output_stride"]), words(*(t["offset"] for t in tensors)),
            words(*(t["bytes"] for t in tensors)), ctypes.c_uint32(count), (ctypes.c_int * max(1, len(cpus)))(*cpus),
            ctypes.c_uint32(len(cpus)), ctypes.c_int(self.channel.fileno()))

    def wait(self, child, limit_ns):
        """Until it ends, or the broker says so by a frame or by leaving. What it is given gives it time as well."""
        descriptor = os.pidfd_open(child)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.register(self.channel, select.POLLIN)
            while any(ready == self.channel.fileno() for ready, _ in poll.poll(max(1, limit_ns // 1_000_000))):
                frame, files, _, _ = socket.recv_fds(self.channel, MOST_FRAME_BYTES, MOST_FRAME_FDS)
                if frame != b"given":
                    return
                self.program.give(files[0])
        finally:
            os.close(descriptor)


def main():
    library = ctypes.CDLL(sys.argv[1], use_errno=True)
    library.lathe_host_supervise.restype = ctypes.c_uint32
    torch.set_num_threads(1)
    on_gpu = sys.argv[3] == "gpu"
    if on_gpu:
        gpu.hide_memory()
        triton_support.warm_up(os.path.join(sys.argv[2], "scratch"))
    worker.warm_up()
    channel = socket.socket(fileno=3)
    channel.set_inheritable(False)
    Zygote(channel, library, sys.argv[2], sys.argv[4:] if on_gpu else None).serve()


if __name__ == "__main__":
    main()
