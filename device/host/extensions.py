"""torch.utils.cpp_extension for candidates: load_inline finds what the compile jail has made of its sources.

A candidate compiles nothing itself. While it is built, a request that has no answer yet ends the process; the broker
compiles it and builds again.
"""

import importlib.machinery
import importlib.util
import json
import sys
import types

import torch


class Wanted(BaseException):
    """A library that is not compiled yet."""

    def __init__(self, request):
        super().__init__("an extension is to be compiled")
        self.request = request


def as_list(sources):
    if sources is None:
        return []
    return [sources] if isinstance(sources, str) else list(sources)


def source_of(cpp_sources, functions):
    """One translation unit: the sources, and the module that gives their functions to Python."""
    parts = ["#include <torch/extension.h>"] + cpp_sources
    if functions is not None:
        names = {name: name for name in as_list(functions)} if not isinstance(functions, dict) else functions
        parts.append("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {")
        for name, text in names.items():
            parts.append('m.def("%s", torch::wrap_pybind_function(%s), "%s");' % (name, name, text.replace('"', "'")))
        parts.append("}")
    return "\n".join(parts) + "\n"


def c_request(name, source):
    """A Python module in C, of Python's and CUDA's headers."""
    return json.dumps({"kind": "c", "name": str(name), "source": source, "flags": []}, sort_keys=True)


def answer(request, compiled, ask):
    """The path of what a request makes."""
    if request in compiled:
        return compiled[request]
    if ask is None:
        raise Wanted(request)
    return ask(request)


def install(compiled, ask=None):
    """Replaces torch.utils.cpp_extension by one whose libraries are `compiled`, request to path. What these lack it
    asks for."""
    loaded = {}

    def load_inline(name, cpp_sources, cuda_sources=None, functions=None, extra_cflags=None, extra_cuda_cflags=None,
                    extra_ldflags=None, extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None,
                    is_python_module=True, with_pytorch_error_handling=True, keep_intermediates=True, use_pch=False,
                    no_implicit_headers=False):
        if not is_python_module:
            raise RuntimeError("only Python modules are supported")
        wanted = {"name": str(name), "source": source_of(as_list(cpp_sources), functions),
                  "flags": [str(flag) for flag in as_list(extra_cflags)]}
        if as_list(cuda_sources):
            wanted.update(kind="cuda", kernels="\n".join(as_list(cuda_sources)),
                          kernel_flags=[str(flag) for flag in as_list(extra_cuda_cflags)])
        request = json.dumps(wanted, sort_keys=True)
        if request not in loaded:
            path = answer(request, compiled, ask)
            loader = importlib.machinery.ExtensionFileLoader(str(name), path)
            spec = importlib.util.spec_from_file_location(str(name), path, loader=loader)
            loaded[request] = importlib.util.module_from_spec(spec)
            loader.exec_module(loaded[request])
        return loaded[request]

    def refuse(*_arguments, **_options):
        raise RuntimeError("only load_inline is supported: a candidate is one text")

    module = types.ModuleType("torch.utils.cpp_extension")
    module.load_inline = load_inline
    for name in ("load", "CppExtension", "CUDAExtension", "BuildExtension"):
        setattr(module, name, refuse)
    # What modules ask before they call load_inline.
    module.include_paths = module.library_paths = lambda *_arguments, **_options: []
    module.is_ninja_available = lambda: True
    module.verify_ninja_availability = lambda: None
    module.CUDA_HOME = module.ROCM_HOME = None
    sys.modules["torch.utils.cpp_extension"] = module
    torch.utils.cpp_extension = module
