"""Triton in a candidate's process, which can start no compilers.

Its PTX becomes machine code in the process, by the library that PyTorch brings for that. The launchers in C that it
makes for each signature are wanted of the broker. What a build has compiled is packed, and lies in the cache of every
later process of the candidate.
"""

import base64
import ctypes
import importlib
import json
import os
import re
import secrets
import sys

import extensions

PTX = 2  # a kind of input
MOST_PACKED_BYTES = 32 << 20
OWN_FOLDER = "@FOLDER@"
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,200}")


def warm_up(folder):
    """In a zygote, which may start programs: what needs a compiler once, and what each process would do again."""
    os.environ["TMPDIR"] = folder
    os.environ["TRITON_CACHE_DIR"] = folder + "/triton"
    os.environ["TRITON_STORE_BINARY_ONLY"] = "1"
    try:
        from triton.backends.nvidia import compiler, driver
    except ImportError:
        return
    compiler.get_ptxas_version(90)
    compiler.get_ptxas(90)
    driver.CudaUtils()
    driver.CudaUtils.__init__ = lambda self: None  # it is made once, and asked for often
    compiler.CUDABackend.make_cubin = make_cubin
    read_ahead()


def read_ahead():
    """What a first launch reads: all of Triton, for the key of its cache, and modules for arguments of rare kinds. It
    takes half a second, and differs from version to version."""
    try:
        from triton.runtime.cache import triton_key
        triton_key()
        importlib.import_module("triton.experimental.gluon.nvidia.hopper")
    except Exception:
        pass  # then each process reads it


def clear(folder):
    """A child may have made folders that cannot be listed, and nested them deeper than a path is long."""
    while names := os.listdir(folder):
        for name in names:
            path = os.path.join(folder, name)
            if not is_folder(path):
                os.unlink(path)
                continue
            os.chmod(path, 0o700)
            for inner in os.listdir(path):
                above = os.path.join(folder, secrets.token_hex(16))
                if is_folder(os.path.join(path, inner)):
                    os.chmod(os.path.join(path, inner), 0o700)
                os.rename(os.path.join(path, inner), above)
            os.rmdir(path)


def is_folder(path):
    return os.path.isdir(path) and not os.path.islink(path)


def pack(folder):
    """What Triton keeps in its cache, as text."""
    cache = os.environ["TRITON_CACHE_DIR"]
    files, size = {}, 0
    for place, _, names in os.walk(cache):
        for name in sorted(names):
            with open(os.path.join(place, name), "rb") as file:
                data = file.read()
            if name.startswith("__grp__"):
                data = data.replace(folder.encode(), OWN_FOLDER.encode())
            size += len(data)
            if size > MOST_PACKED_BYTES:
                raise RuntimeError("Triton compiled more than %d MiB" % (MOST_PACKED_BYTES >> 20))
            files[os.path.relpath(os.path.join(place, name), cache)] = base64.b64encode(data).decode()
    return json.dumps(files)


def unpack(text, folder):
    """The text is a candidate's."""
    cache = os.environ["TRITON_CACHE_DIR"]
    for path, data in json.loads(text).items():
        parts = path.split("/")
        if len(parts) != 2 or not all(PLAIN_NAME.fullmatch(part) for part in parts):
            raise ValueError("an unusual file of Triton's cache")
        data = base64.b64decode(data)
        if parts[1].startswith("__grp__"):
            data = data.replace(OWN_FOLDER.encode(), folder.encode())
        os.makedirs(os.path.join(cache, parts[0]), exist_ok=True)
        with open(os.path.join(cache, path), "wb") as file:
            file.write(data)


def make_cubin(self, source, metadata, options, capability):
    """For Triton's last stage: the machine code of a kernel's PTX."""
    flags = ["-arch=sm_%d%s" % (capability, "a" if capability >= 90 else ""), "-lineinfo"]
    if not options.enable_fp_fusion:
        flags.append("-fma=0")
    if options.ptx_options:
        flags.append("-Xptxas=" + options.ptx_options)
    return link(source.encode() + b"\0", flags)


def link(ptx, flags):
    library = ctypes.CDLL("libnvJitLink.so.%s" % torch_cuda_major())
    linker = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))

    def ask(function, *arguments):
        code = getattr(library, function)(*arguments)
        if code:
            size = ctypes.c_size_t()
            library.nvJitLinkGetErrorLogSize(linker, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value + 1)
            library.nvJitLinkGetErrorLog(linker, log)
            raise RuntimeError("%s: error %d\n%s" % (function, code, log.value.decode("utf-8", "replace")[-2000:]))

    ask("nvJitLinkCreate", ctypes.byref(linker), ctypes.c_uint32(len(flags)), texts)
    try:
        ask("nvJitLinkAddData", linker, PTX, ptx, ctypes.c_size_t(len(ptx)), b"kernel")
        ask("nvJitLinkComplete", linker)
        size = ctypes.c_size_t()
        ask("nvJitLinkGetLinkedCubinSize", linker, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        ask("nvJitLinkGetLinkedCubin", linker, code)
        return code.raw
    finally:
        library.nvJitLinkDestroy(ctypes.byref(linker))


def torch_cuda_major():
    import torch
    return torch.version.cuda.split(".")[0]


def install(compiled, ask=None):
    """In a candidate's process: launchers are those of `compiled`, request to path, or asked for."""
    if "triton" not in sys.modules:
        return
    from triton import knobs

    def build(name, path, *_):
        with open(path) as file:
            request = extensions.c_request(name, file.read())
        return extensions.answer(request, compiled, ask)

    knobs.build.impl = build
