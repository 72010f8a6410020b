"""FlashInfer-Bench's definitions, workloads and solutions as tasks and candidates of the HOST tier.

    python3 -m lathe_gym.flashinfer definition.json --workloads workloads.jsonl --solutions *.json --out DIR
    lathe eval --device host:cuda DIR/NAME.toml DIR/SOLUTION.py

or, for a service, `Submission(task(definition, workloads), candidate(definition, solution))`. Inputs are the gym's own:
of a workload the extents count and the scalars' values, never its stored tensors.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

_DTYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4m3",
    "float8_e5m2": "fp8e5m2",
    "int64": "int64",
    "int32": "int32",
    "int8": "int8",
    "bool": "bool",
}
_LARGEST_OF = 2  # times the largest extent of a workload: as far as a task's domain goes

# What calls a solution's or a reference's function: by names, with outputs to write to where it wants them. Whether it
# does is not for a timed call to find out.
_ENTRY = '''
import inspect as lathe_inspect

import torch as lathe_torch

lathe_inputs, lathe_outputs = {inputs!r}, {outputs!r}
lathe_writes = set(lathe_outputs) <= set(lathe_inspect.signature({function}).parameters)


def lathe_entry(*values):
    given = dict(zip(lathe_inputs, values))
    if not lathe_writes:
        got = {function}(**given)
        return tuple(got[name] for name in lathe_outputs) if isinstance(got, dict) else got
    axes = dict({constants!r})
    device = next(value.device for value in values if isinstance(value, lathe_torch.Tensor))
    for name, shape in {shapes!r}.items():
        axes.update(zip(shape, given[name].shape))
    made = {{name: lathe_torch.empty([axes.get(axis, axis) for axis in shape], dtype=getattr(lathe_torch, dtype),
                                    device=device)
            for name, (shape, dtype) in lathe_outputs.items()}}
    {function}(**given, **made)
    return tuple(made.values())
'''

# A task's reference is a module.
_MODULE = '''

class LatheModel(lathe_torch.nn.Module):
    def forward(self, *values):
        return lathe_entry(*values)
'''

# Several files, which import one another by their paths.
_FILES = '''
import importlib.abc
import importlib.util
import linecache
import sys


class _Files(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    files = {files!r}

    def find_spec(self, name, path=None, target=None):
        base = name.replace(".", "/")
        for file in (base + ".py", base + "/__init__.py"):
            if file in self.files:
                return importlib.util.spec_from_loader(name, self, origin=file, is_package=file.endswith("__init__.py"))
        folder = any(file.startswith(base + "/") for file in self.files)
        return importlib.util.spec_from_loader(name, self, origin="", is_package=True) if folder else None

    def exec_module(self, module):
        file = module.__spec__.origin
        text = self.files.get(file, "")
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        exec(compile(text, file, "exec"), module.__dict__)


sys.meta_path.insert(0, _Files())
'''


class Unsupported(ValueError):
    """Why a definition or a solution cannot be judged, and what to do."""


def _dtype(name: str, where: str) -> str:
    if name not in _DTYPES:
        raise Unsupported(f"{where} is of {name}, which tasks do not have: {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _shape(spec: Mapping[str, Any], constants: Mapping[str, int]) -> str:
    return json.dumps([constants.get(axis, axis) for axis in spec["shape"]])


def _constants(definition: Mapping[str, Any]) -> dict[str, int]:
    return {name: axis["value"] for name, axis in definition["axes"].items() if axis["type"] == "const"}


def _called(definition: Mapping[str, Any], function: str) -> str:
    """Code that makes `lathe_entry` of an expression for a function."""
    outputs = {name: (spec["shape"], spec["dtype"]) for name, spec in definition["outputs"].items()}
    shapes = {name: spec["shape"] for name, spec in definition["inputs"].items() if spec["shape"] is not None}
    return _ENTRY.format(
        inputs=list(definition["inputs"]),
        outputs=outputs,
        shapes=shapes,
        constants=_constants(definition),
        function=function,
    )


def _of_workloads(
    definition: Mapping[str, Any], workloads: Iterable[Mapping[str, Any]]
) -> "tuple[list[dict[str, int]], dict[str, Any]]":
    """Their different extents, and the scalars' values."""
    extents: list[dict[str, int]] = []
    scalars: dict[str, Any] = {}
    for line in workloads:
        if line.get("definition", definition["name"]) != definition["name"]:
            raise Unsupported(f"a workload is of '{line['definition']}', not of '{definition['name']}'")
        workload = line.get("workload", line)
        axes = dict(workload["axes"])
        if axes not in extents:
            extents.append(axes)
        for name, source in workload.get("inputs", {}).items():
            if source["type"] != "scalar":
                continue
            if scalars.setdefault(name, source["value"]) != source["value"]:
                raise Unsupported(f"the scalar '{name}' differs between workloads: make a task of each value")
    return extents, scalars


def task(
    definition: Mapping[str, Any], workloads: Iterable[Mapping[str, Any]] = (), draws: Mapping[str, str] = {}
) -> dict[str, Any]:
    """What `Submission.task` takes: {"toml", "files"}. Each of the workloads' extents is a scored shape.

    Whole numbers mostly mean something (offsets, pages), which no definition tells: `draws` has for each such input
    further keys of its tensor, as 'role = "index", gen = { kind = "index", limit = "vocabulary" }' (docs/tasks.md).
    """
    extents, scalars = _of_workloads(definition, workloads)
    constants = _constants(definition)
    variable = [name for name in definition["axes"] if name not in constants]
    if variable and not extents:
        raise Unsupported(f"nothing says the extents of {', '.join(variable)}: give workloads")
    for tensor in draws:
        if definition["inputs"].get(tensor, {"shape": None})["shape"] is None:
            raise Unsupported(f"`draws` names '{tensor}'; the tensors are {', '.join(definition['inputs'])}")
    name = re.sub(r"\W", "_", definition["name"])
    lines = [f'name = "{name}"', f"description = {json.dumps(definition.get('description', ''))}"]
    domain = {axis: max(one[axis] for one in extents) * _LARGEST_OF for axis in variable}
    if domain:
        lines.append("dims = { " + ", ".join(f"{axis} = [1, {largest}]" for axis, largest in domain.items()) + " }")
        if definition.get("constraints"):
            lines.append(f"where = {json.dumps(' && '.join(f'({one})' for one in definition['constraints']))}")
    else:
        lines.append("fixed = true")
    lines.append('reference = { kind = "process", source = "reference.py", entry = "LatheModel" }')
    lines.append("tensor = [")
    for tensor, spec in definition["inputs"].items():
        keys = f'name = "{tensor}", dtype = "{_dtype(spec["dtype"], tensor)}"'
        if spec["shape"] is None:
            if tensor not in scalars:
                raise Unsupported(f"the scalar '{tensor}' has no value: give a workload")
            keys += f', role = "scalar", value = {json.dumps(scalars[tensor])}'
        else:
            keys += f", shape = {_shape(spec, constants)}"
            if tensor in draws:
                keys += ", " + draws[tensor]
            elif not spec["dtype"].startswith(("float", "bfloat")):
                raise Unsupported(f"'{tensor}' has whole numbers: say by `draws` which may be drawn for it")
        lines.append(f"  {{ {keys} }},")
    lines += ["]", "output = ["]
    for tensor, spec in definition["outputs"].items():
        if spec["shape"] is None:
            raise Unsupported(f"the output '{tensor}' is a number, no tensor")
        keys = f'name = "{tensor}", dtype = "{_dtype(spec["dtype"], tensor)}", shape = {_shape(spec, constants)}'
        lines.append(f"  {{ {keys} }},")
    lines.append("]")
    for shape in extents if variable else [{}]:
        lines += ["", "[[shape]]"] + [f"{axis} = {shape[axis]}" for axis in variable]
    reference = definition["reference"] + "\n" + _called(definition, "run") + _MODULE
    return {"toml": "\n".join(lines) + "\n", "files": {"reference.py": reference}}


def candidate(definition: Mapping[str, Any], solution: Mapping[str, Any]) -> str:
    """The text of a candidate. A function that takes outputs to write to has them made in its timed call."""
    if solution["definition"] != definition["name"]:
        raise Unsupported(f"'{solution['name']}' solves '{solution['definition']}', not '{definition['name']}'")
    spec = solution["spec"]
    path, _, function = spec["entry_point"].partition("::")
    files = {source["path"]: source["content"] for source in solution["sources"]}
    if not path.endswith(".py"):
        raise Unsupported(
            f"'{solution['name']}' begins in {path}: a candidate is a Python module, which may compile CUDA by "
            "torch.utils.cpp_extension.load_inline"
        )
    if path not in files:
        raise Unsupported(f"'{solution['name']}' has no source {path}")
    if spec.get("build_commands"):
        raise Unsupported(f"'{solution['name']}' has build commands, which a candidate cannot run")
    front = '"""lathe host = { language = "python", entry = "lathe_entry" } """\n'
    if len(files) == 1 and "__future__" not in files[path]:
        return front + files[path] + "\n" + _called(definition, function)
    module = path[: -len(".py")].replace("/", ".")
    begin = _FILES.format(files=files) + f"\nimport {module} as lathe_solution\n"
    return front + begin + _called(definition, "lathe_solution." + function)


def _object(path: str, value: Any) -> Any:
    if not isinstance(value, dict):
        raise Unsupported(f"{path} has {json.dumps(value)[:40]} where an object is expected")
    return value


def _read(path: str) -> Any:
    try:
        return _object(path, json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise Unsupported(f"{path} cannot be read as JSON: {error}") from None


def _workloads(path: str) -> list[Any]:
    try:
        lines = [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
        return [_object(path, json.loads(line)) for line in lines]
    except (OSError, ValueError) as error:
        raise Unsupported(f"{path} cannot be read as JSON Lines: {error}") from None


def _draws(given: Sequence[str]) -> dict[str, str]:
    draws: dict[str, str] = {}
    for one in given:
        name, equals, keys = one.partition("=")
        if not equals or not keys.strip():
            raise Unsupported(f"--draw {one!r} is not INPUT=KEYS, such as 'ids=gen = {{ kind = \"uniform\" }}'")
        draws[name.strip()] = keys
    return draws


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m lathe_gym.flashinfer", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("definition", help="a Definition, JSON")
    parser.add_argument("--workloads", metavar="FILE", help="Workloads or Traces of it, JSON Lines")
    parser.add_argument("--draw", metavar="INPUT=KEYS", action="append", default=[],
                        help="what may be drawn for an input of whole numbers, as in a task's tensor")
    parser.add_argument("--solutions", metavar="FILE", nargs="*", default=[], help="Solutions of it, JSON")
    parser.add_argument("--out", metavar="DIR", required=True)
    options = parser.parse_args(arguments)
    try:
        definition = _read(options.definition)
        workloads = _workloads(options.workloads) if options.workloads else ()
        made = task(definition, workloads, _draws(options.draw))
        texts = {}
        for path in options.solutions:
            solution = _read(path)
            texts[re.sub(r"\W", "_", solution["name"]) + ".py"] = candidate(definition, solution)
    except KeyError as error:
        print(f"lathe_gym.flashinfer: there is no field {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"lathe_gym.flashinfer: {error}", file=sys.stderr)
        return 1
    out = Path(options.out)
    task_file = re.sub(r"\W", "_", definition["name"]) + ".toml"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in {task_file: made["toml"], **made["files"], **texts}.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"lathe_gym.flashinfer: cannot write to {out}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
