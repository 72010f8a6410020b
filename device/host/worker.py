"""What runs in a zygote's child: a candidate's calls, or a reference's evaluation.

Nothing here is a defence. The candidate shares this process, and may replace all of it: what counts is checked by the
broker, in memory that this process cannot reach.
"""

import ctypes
import gc
import json
import math
import mmap
import numbers
import os
import resource
import struct
import sys
import traceback
import types
import warnings
import zlib

import torch

import activity
import conditioning
import extensions
import gpu
import own_error
import parameters
import plain_values
import precise
import programs
import roundings
import signature
import triton_support

TEXT_OFFSET = 4096
MOST_THREADS = 4096  # far fewer than a jail may have
MOST_SAID = 1000  # of either end of an error's own text
CALLED = "called"  # of a build that ended in a call: what is wrong, its first block says

BUILT, SETUP, IMPORT, ENTRY, STATE, EXCEPTION, OUTPUT, EXTENSION, ANSWERED, MEMORY = range(10, 20)

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
          "int8": torch.int8, "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64, "bool": torch.bool}
for name, attribute in (("fp8e4m3", "float8_e4m3fn"), ("fp8e5m2", "float8_e5m2")):
    if hasattr(torch, attribute):  # from version 2.1 on
        DTYPES[name] = getattr(torch, attribute)
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Ended(Exception):
    """Ends the process with an exit code and a text."""

    def __init__(self, code, text=None):
        super().__init__(text)
        self.code = code
        self.text = text


def warm_up():
    """In a zygote: what the first call of each kind costs, no child pays."""
    layer = torch.nn.Linear(8, 8)
    with torch.no_grad():
        torch.softmax(layer(torch.rand(4, 8)), dim=-1)
    gc.collect()
    gc.freeze()


def write_text(program, text):
    data = text.encode("utf-8", "replace")[: len(program.control) - TEXT_OFFSET]
    program.control[TEXT_OFFSET:TEXT_OFFSET + len(data)] = data
    struct.pack_into("<I", program.control, program.load["text_size_at"], len(data))


def describe_exception(error, file_name):
    """The last lines, without the frames of this folder. What is wrong stands at an end of what the error says, between
    which it may show a tensor or a program."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if os.path.dirname(frame.filename) != os.path.dirname(__file__)]
    said = "".join(traceback.format_exception_only(type(error), error))
    if len(said) > 2 * MOST_SAID:
        said = said[:MOST_SAID] + " ...\n" + said[-MOST_SAID:]
    return without_folders(("".join(traceback.format_list(frames[-6:])) + said).replace(file_name, "candidate.py"))[-6000:]


def without_folders(text):
    """Modules by their names: where this machine keeps its libraries is nobody's business."""
    for folder in sorted(filter(None, sys.path), key=len, reverse=True):
        text = text.replace(folder.rstrip(os.sep) + os.sep, "")
    return text


def is_out_of_memory(error):
    """Of a GPU, which others may have taken."""
    return torch.cuda.is_initialized() and isinstance(error, RuntimeError) and "out of memory" in str(error)


def failed(error, code, hint=""):
    """The end by an error of the candidate's, and what helps; a full GPU is not always its fault."""
    return Ended(MEMORY if is_out_of_memory(error) else code, describe_exception(error, __file__) + hint)


def how_it_is_made(init):
    return "The entry is made with the reference's arguments: (%s)" % plain_values.written(init)


def how_it_gets(state):
    names = ", ".join(spec["name"] for spec in state)
    return ("It gets the reference's parameters and buffers by load_state_dict(): %s. What it makes of them, as fused or "
            "transposed weights, it makes at its first call; its other tensors are no parameters, but buffers with "
            "persistent=False" % (names if len(names) <= MOST_SAID else names[:MOST_SAID] + " ..."))


def tensor_over(memory, spec):
    """A tensor over shared memory that cannot be written to."""
    dtype = DTYPES.get(spec["dtype"]) or getattr(torch, spec["dtype"])
    count = math.prod(spec["shape"])
    if count == 0:
        return torch.empty(spec["shape"], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=spec["offset"])
    return flat.view(spec["shape"])


class Memory:
    """Inputs in the host's memory, and outputs wherever they are in it."""

    device = "cpu"

    def __init__(self, window):
        self.window = window
        self.address = None

    def view(self, _, spec):
        view = tensor_over(self.window, spec)
        self.address = self.address or view.data_ptr() - spec["offset"]
        return view

    def publish(self, results, specs, _):
        table = (ctypes.c_uint64 * (2 * max(1, len(specs))))()
        for i, got in enumerate(results):
            table[2 * i] = got.data_ptr()
            table[2 * i + 1] = got.numel() * got.element_size()
        return table, len(results)


def python_of(text):
    """A text with blank lines for its front matter: what follows may begin as a file does, with a mark of its encoding,
    a docstring and imports from __future__."""
    begin = len(text) - len(text.lstrip())
    end = text.find('"""', begin + 3) + 3
    if text.startswith('"""lathe', begin) and end > 3:
        text = "\n" * text.count("\n", 0, end) + text[end:]
    return text.replace("\ufeff", "", 1) if text.lstrip().startswith("\ufeff") else text


def load_module(text, dims):
    """The module of a text. A dim of the task replaces the number of its name; a function of that name is no dim."""
    text = python_of(text)
    module = types.ModuleType("candidate")
    module.__file__ = "candidate.py"
    sys.modules["candidate"] = module
    import linecache
    linecache.cache["candidate.py"] = (len(text), None, text.splitlines(True), "candidate.py")
    exec(compile(text, "candidate.py", "exec"), module.__dict__)
    for name, value in dims.items():
        if isinstance(module.__dict__.get(name), numbers.Number):
            module.__dict__[name] = value
    return module


def find_entry(module, entry):
    found = module
    for part in entry.split("."):
        found = getattr(found, part)
    return found


def make_model(module, entry, init):
    entry = find_entry(module, entry)
    if not isinstance(entry, type):
        return entry
    model = plain_values.make(entry, init)
    if isinstance(model, torch.nn.Module):
        model.eval()
    return model


def take_state(model, section, memory):
    """Gives the model the reference's parameters."""
    if not section["state"]:
        return
    if not hasattr(model, "load_state_dict"):
        raise TypeError("the reference has parameters, and the entry has no load_state_dict(): it is no torch.nn.Module")
    given = {spec["name"]: tensor_over(memory, spec).clone() for spec in section["state"]}
    model.load_state_dict(given, strict=True)


def dummy(spec, samples, device):
    """What a call may get: the gym's sample of what may not be any number, such as an index or an extent."""
    dtype = DTYPES[spec["dtype"]]
    if "sample" in spec:
        return tensor_over(samples, dict(spec, offset=spec["sample"])).clone().to(device)
    if dtype.is_floating_point:
        return torch.rand(spec["shape"], device=device).to(dtype)
    return torch.zeros(spec["shape"], dtype=dtype, device=device)


def as_argument(tensor, spec):
    return tensor.item() if spec["scalar"] else tensor


def checked(result, specs, device):
    """The outputs of one call as dense tensors of the types and shapes that the task declares."""
    results = signature.values_of(result, [spec["name"] for spec in specs])
    if len(results) != len(specs):
        raise Ended(OUTPUT, "the call returned %d values, the task has %d outputs" % (len(results), len(specs)))
    dense = []
    for got, spec in zip(results, specs):
        if type(got) is not torch.Tensor and type(got) is not torch.nn.Parameter:
            raise Ended(OUTPUT, "output '%s' is a %s, not a torch.Tensor" % (spec["name"], type(got).__name__))
        if got.layout is not torch.strided or got.device.type != device or got.is_quantized:
            raise Ended(OUTPUT, "output '%s' is not a dense tensor on the device '%s'" % (spec["name"], device))
        if got.dtype is not DTYPES[spec["dtype"]] or list(got.shape) != spec["shape"]:
            raise Ended(OUTPUT, "output '%s' is %s of shape %s, not %s of shape %s" % (
                spec["name"], got.dtype, list(got.shape), DTYPES[spec["dtype"]], spec["shape"]))
        got = got.detach().resolve_conj().resolve_neg().contiguous()
        dense.append(got)
    return dense


def prepare(program, poison):
    load, library = program.load, program.library
    control = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(program.control)))
    library.lathe_host_prepare_heap(poison, ctypes.c_uint64(load["heap_bytes"]))
    torch.set_num_threads(load["threads"])
    if load["cpus"]:
        os.sched_setaffinity(0, load["cpus"])
    if program.readable is None:  # a GPU's driver reserves more addresses than there is memory
        resource.setrlimit(resource.RLIMIT_AS, (load["memory_bytes"], load["memory_bytes"]))
        # Counted over all jails of the user: a candidate must not take the last that a zygote needs to fork.
        resource.setrlimit(resource.RLIMIT_NPROC, (MOST_THREADS, MOST_THREADS))
    return control


def confine(program, control, uses_gpu=True):
    """The last thing before candidate code: no descriptors but a driver's own, and few system calls. The GPU's windows."""
    for descriptor in range(3, 256):
        if descriptor != program.confined and descriptor not in program.windows:
            try:
                os.close(descriptor)
            except OSError:
                pass
    windows = None
    if program.readable is not None:
        try:
            windows = gpu.start(program, uses_gpu, activity.Watch if program.load.get("watched") else None)
        except BaseException as error:
            raise Ended(SETUP, "the GPU cannot be used: %s" % error)
    program.library.lathe_host_hold(control)
    error = program.library.lathe_host_confine(control, program.readable is not None)
    if error:
        raise Ended(SETUP, "cannot confine the candidate: " + os.strerror(error))
    os.write(program.confined, b"y")
    os.close(program.confined)
    return windows


def given_path(program, number):
    return os.path.join(program.given, "%d.so" % number)


def install(program, ask=None):
    """What a candidate finds instead of the programs that it may not start. `ask` compiles what was not known before."""
    programs.install()
    extensions.install(program.extensions, ask)
    if program.readable is not None:
        triton_support.install(program.extensions, ask)


class Requests:
    """Of a build: the broker compiles, and the process goes on."""

    def __init__(self, program, control):
        self.program, self.control = program, control
        self.asked = 0

    def __call__(self, request):
        self.asked += 1
        write_text(self.program, request)
        self.program.library.lathe_host_request(self.control, ctypes.c_uint32(self.asked))
        self.program.library.lathe_host_doze(self.control, ctypes.c_uint32(self.asked))
        path = given_path(self.program, self.asked)
        self.program.extensions[request] = path
        return path


def read_only(file):
    """A file's memory; None where there is nothing in it."""
    return mmap.mmap(file, 0, mmap.MAP_SHARED, mmap.PROT_READ) if os.fstat(file).st_size else None


def memories_of(program):
    """Of each section its parameters, and the samples of its inputs."""
    samples = read_only(program.samples)
    return [(read_only(file), samples) for file in program.states]


class Section:
    """The candidate at one shape, warmed up."""

    def __init__(self, load, section, memories, windows, place):
        state, samples = memories
        self.model = start(load, section, state, windows)
        self.inputs, self.outputs, self.place = section["inputs"], section["outputs"], place
        self.views = [place.view(DTYPES[spec["dtype"]], spec) for spec in self.inputs]
        for _ in range(load["warm_up_calls"]):
            self.publish(self.call([dummy(spec, samples, place.device) for spec in self.inputs]))

    def call(self, tensors):
        return checked(self.model(*(as_argument(tensor, spec) for tensor, spec in zip(tensors, self.inputs))),
                       self.outputs, self.place.device)

    def publish(self, results):
        return self.place.publish(results, self.outputs, DTYPES)


def run_calls(program, control, current, calls):
    """Calls of the section `current`, until the control page names another one: a call that only gets it ready."""
    load, library = program.load, program.library
    window = None
    if not program.windows:  # else a call's inputs lie there before its clock runs
        window = mmap.mmap(program.files[2], 0, mmap.MAP_SHARED, mmap.PROT_READ)
        try:
            window.madvise(22)  # MADV_POPULATE_READ
        except (OSError, ValueError):
            pass
    memories = memories_of(program)
    windows = confine(program, control)
    install(program)
    place = windows or Memory(window)
    watch = windows.watch if windows else None
    computed = activity.Totals()
    results = None
    with torch.no_grad():
        section = Section(load, program.sections[current], memories[current], windows, place)
        library.lathe_host_ready(control, ctypes.c_void_p(place.address))
        for call in range(1, calls + 1):
            library.lathe_host_await(control, ctypes.c_uint32(call))
            results = None  # of the call before, whose memory the next one may have
            if (wanted := library.lathe_host_section(control)) != current:
                section, current = None, wanted
                free_memory(windows)
                section = Section(load, program.sections[current], memories[current], windows, place)
                library.lathe_host_publish(control, ctypes.c_uint32(call), None, ctypes.c_uint32(0))
                continue
            if watch:
                watch.take()
            results = section.call(section.views)
            if watch:
                computed.add(watch.take())
                write_text(program, computed.text())
            table, count = section.publish(results)
            library.lathe_host_publish(control, ctypes.c_uint32(call), table, ctypes.c_uint32(count))
        library.lathe_host_await(control, ctypes.c_uint32(calls + 1))  # never


def free_memory(windows):
    """What a shape has left must not lie where the next one's results will."""
    gc.collect()
    if windows:
        torch.cuda.empty_cache()


def start(load, section, state, windows):
    """The candidate at a shape, ready for its first call."""
    try:
        module = load_module(load["text"], section["dims"])
    except extensions.Wanted as wanted:
        raise Ended(EXTENSION, wanted.request)
    except BaseException as error:
        raise failed(error, IMPORT)
    init = plain_values.decode(section["init"])
    try:
        model = make_model(module, load["entry"], init)
    except extensions.Wanted as wanted:
        raise Ended(EXTENSION, wanted.request)
    except BaseException as error:
        raise failed(error, ENTRY, how_it_is_made(init) if isinstance(error, TypeError) else "")
    try:
        take_state(model, section, state)
        if windows and isinstance(model, torch.nn.Module):
            model = model.to(windows.device)
    except BaseException as error:
        raise failed(error, STATE, how_it_gets(section["state"]))
    return model


def build(program, control):
    """Imports the module and makes its entry at each shape. On a GPU it is also called, and what Triton compiles then
    is packed; elsewhere where it seems to ask for an extension in its first call."""
    memories = memories_of(program)
    windows = confine(program, control)
    requests = Requests(program, control)
    install(program, requests)
    for section, (state, samples) in zip(program.sections, memories):
        model = start(program.load, section, state, windows)
        if windows or ("load_inline" in program.load["text"] and not requests.asked):
            write_text(program, CALLED)
            call_once(model, section, samples, windows)
            model = None
            try:
                free_memory(windows)
            except RuntimeError:  # a kernel's fault, after which the device does nothing more for this process
                break
    raise Ended(BUILT, triton_support.pack(program.scratch) if windows else None)


def call_once(model, section, samples, windows):
    try:
        with torch.no_grad():
            device = windows.device if windows else "cpu"
            model(*(as_argument(dummy(spec, samples, device), spec) for spec in section["inputs"]))
        if windows:
            torch.cuda.synchronize()
    except BaseException as error:
        if is_out_of_memory(error):
            raise failed(error, MEMORY)
        # Else its first block says what is wrong.


def find_requests(program, control):
    """Has compiled what the module asks for when it is imported: that needs no context, which others may need."""
    memories = memories_of(program)
    confine(program, control, uses_gpu=False)
    install(program, Requests(program, control))
    start(program.load, program.sections[0], memories[0][0], None)
    raise Ended(BUILT)


def make_reference(load):
    """The task's own module, in its own precision, what it is made of, and the text as a Python module."""
    module = load_module(load["text"], load["dims"])
    makes = getattr(module, "get_init_inputs", None)
    given = makes() if makes else []
    try:
        init = plain_values.encode(given if isinstance(given, dict) else list(given))
    except plain_values.Refused as refused:
        raise Ended(EXCEPTION, str(refused))
    torch.manual_seed(load["seed"])
    model = plain_values.make(find_entry(module, load["entry"]), plain_values.decode(init))
    if not isinstance(model, torch.nn.Module):
        raise Ended(EXCEPTION, f"'{load['entry']}' is no torch.nn.Module")
    parameters.vary(model, load["seed"])
    model.eval()
    return model, init, module


def describe(program, control, uses_gpu):
    confine(program, control, uses_gpu)
    model, init, _ = make_reference(program.load)
    state, offset = [], 0
    for name, tensor in model.state_dict().items():
        size = tensor.numel() * tensor.element_size()
        state.append({"name": name, "dtype": str(tensor.dtype)[len("torch."):], "shape": list(tensor.shape),
                      "offset": offset})
        offset += (size + 63) // 64 * 64
    outputs = program.outputs
    if outputs is not None and len(outputs) >= offset:
        for spec, tensor in zip(state, model.state_dict().values()):
            put(outputs, spec["offset"], tensor)
    write_text(program, json.dumps({"init": init, "state": state, "state_bytes": offset}))
    raise Ended(ANSWERED)


def find_signature(program, control, uses_gpu):
    """What get_inputs() gives, in several draws, and what forward() makes of it."""
    confine(program, control, uses_gpu)
    load = program.load
    model, _, module = make_reference(load)
    if not hasattr(module, "get_inputs"):
        raise Ended(EXCEPTION, "the module has no get_inputs(), and the task lists no tensors")
    draws = []
    for number in range(signature.DRAWS):
        torch.manual_seed(load["seed"] + number)
        draws.append(module.get_inputs())
        if not isinstance(draws[-1], (list, tuple)):
            raise Ended(EXCEPTION, "get_inputs() gives a %s, not a list of forward()'s arguments" %
                        type(draws[-1]).__name__)
    try:
        inputs = signature.inputs_of(draws, NAMES)
        with torch.no_grad():
            outputs = signature.outputs_of(model(*draws[0]), NAMES)
    except signature.Refused as refused:
        raise Ended(EXCEPTION, str(refused))
    write_text(program, json.dumps({"inputs": inputs, "outputs": outputs}))
    raise Ended(ANSWERED)


def put(memory, offset, tensor):
    tensor = tensor.detach().cpu().contiguous()
    size = tensor.numel() * tensor.element_size()
    if size:
        view = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
        view.copy_(tensor.reshape(-1))
    return offset + size


def evaluate(program, control):
    """Answers as often as it is asked: for each output its value in fp64, then what the module's own precision is off
    by, then by how much a rounding of the inputs changes it, then by how much the roundings that the module asks for may
    move it, all as doubles."""
    load, library = program.load, program.library
    window = mmap.mmap(program.files[2], 0, mmap.MAP_SHARED, mmap.PROT_READ)
    windows = confine(program, control)
    device = windows.device if windows else "cpu"
    models = [make_reference(load)[0].to(device) for _ in range(2)]
    models[1].double()
    number = 1
    while library.lathe_host_doze(control, ctypes.c_uint32(number)):
        answer(program, window, device, *models)
        library.lathe_host_publish(control, ctypes.c_uint32(number), None, ctypes.c_uint32(0))
        number += 1
    raise Ended(ANSWERED)


def answer(program, window, device, usual, double):
    load = program.load
    inputs = [tensor_over(window, spec).clone().to(device) for spec in load["inputs"]]

    def call(model, tensors):
        torch.manual_seed(load["seed"])  # of a module that draws numbers: the same ones each time
        arguments = [as_argument(tensor, spec) for tensor, spec in zip(tensors, load["inputs"])]
        with torch.no_grad():
            result = model(*arguments)
        return signature.values_of(result, [spec["name"] for spec in load["outputs"]])

    def call_precise(tensors):
        torch.set_default_dtype(torch.float64)
        try:
            return call(double, [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors])
        finally:
            torch.set_default_dtype(torch.float32)

    def call_wide(tensors):
        with precise.Wide():
            return call_precise(tensors)

    def copies():
        return [tensor.clone() for tensor in inputs]

    def call_own(tensors):
        return [value.to(DTYPES[spec["dtype"]]) for value, spec in zip(call(usual, tensors), load["outputs"])]

    own = call_own(copies())
    values = precise.Values(call_precise, copies)
    if len(values.written) != len(load["outputs"]):
        raise ValueError("the module returns %d values, the task has %d outputs" % (
            len(values.written), len(load["outputs"])))
    for spec, value in zip(load["outputs"], values.written):
        if list(value.shape) != spec["shape"]:
            raise ValueError("output '%s' has the shape %s, the task says %s" % (
                spec["name"], list(value.shape), spec["shape"]))
    between = [values.between(number, value) for number, value in enumerate(own)]
    movable = [conditioning.is_movable(tensor) and not spec["scalar"] for tensor, spec in zip(inputs, load["inputs"])]
    seed = load["seed"] ^ zlib.crc32(window)
    call_exact = call_precise if values.are_one() and not values.mixes else call_wide
    wide = [value.double().clone() for value in values.wide]
    changes = conditioning.changes_by_rounding(call_exact, inputs, movable, wide, seed)
    shared = roundings.changes(call_exact, inputs, wide, seed, roundings.SharedExponent, 1)
    changes = [torch.maximum(change, one) for change, one in zip(changes, shared)]
    off = [own_error.off_by(rounded, value) for rounded, (value, _) in zip(own, between)]
    off = own_error.with_roundings(off, own, wide, call_exact, inputs, seed)
    off = own_error.own_errors(off, call_own, call_exact, inputs, movable, seed)
    offset = 0
    for (value, apart), error, change in zip(between, off, changes):
        offset = put(program.outputs, offset, value)
        offset = put(program.outputs, offset, error)
        offset = put(program.outputs, offset, change)
        offset = put(program.outputs, offset, apart)
    if device != "cpu":
        torch.cuda.empty_cache()  # it may wait for long until it is asked again


def main(program, kind, poison, section, calls):
    """Never returns."""
    code = SETUP
    try:
        control = prepare(program, poison)
        if kind == "b":
            run_calls(program, control, section, calls)
        elif kind == "s":
            build(program, control)
        elif kind == "i":
            find_requests(program, control)
        elif kind in "dD":
            describe(program, control, kind == "D")
        elif kind in "tT":
            find_signature(program, control, kind == "T")
        else:
            evaluate(program, control)
    except extensions.Wanted as wanted:
        code = EXTENSION
        write_text(program, wanted.request)
    except Ended as ended:
        code = ended.code
        if ended.text is not None:
            write_text(program, ended.text)
    except BaseException as error:
        ended = failed(error, EXCEPTION)
        code = ended.code
        write_text(program, ended.text)
    finally:
        os._exit(code)
