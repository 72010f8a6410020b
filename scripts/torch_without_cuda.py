"""torch_without_cuda.py SITE_PACKAGES: makes PyPI's torch, installed without NVIDIA's libraries (3 GB of downloads),
importable for the CPU: each library that is missing becomes one whose functions trap. Needs gcc and readelf."""

import pathlib
import re
import subprocess
import sys
import tempfile
from collections import defaultdict

NVIDIAS = re.compile("nccl|nvshmem|cudnn|cublas|cusparse|cufft|cusolver|curand|cuFile")


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def missing_libraries(libraries):
    """NVIDIA's, that something needs and the packages do not have. What the machine has is left alone: it may be
    another version."""
    here = {one.name for one in libraries}
    needed = set()
    for one in libraries:
        needed |= set(re.findall(r"\(NEEDED\).*\[(.+?)\]", "\n".join(lines("readelf", "-dW", str(one)))))
    return {name for name in needed if re.match("libcu|libnccl|libnv", name) and name not in here}


def undefined_symbols(library):
    """(name, version, the library that the version is of) of what a library leaves to others."""
    file_of = {}
    current = ""
    for line in lines("readelf", "-VW", str(library)):
        if found := re.search(r"File: (\S+)", line):
            current = found.group(1)
        elif found := re.search(r"Name: (\S+)\s+Flags", line):
            file_of[found.group(1)] = current
    for line in lines("readelf", "--dyn-syms", "-W", str(library)):
        words = line.split()
        if len(words) > 7 and words[6] == "UND":
            name, _, version = words[7].partition("@")
            yield name, version.lstrip("@"), file_of.get(version.lstrip("@"), "")


def make(folder, soname, symbols):
    """A library that has the symbols, each with its version."""
    by_version = defaultdict(set)
    for name, version in symbols:
        by_version[version].add(name)
    with tempfile.TemporaryDirectory() as work:
        source, script = pathlib.Path(work, "stub.s"), pathlib.Path(work, "versions")
        names = sorted({name for name, _ in symbols})
        text = ".text\n" + "".join(f".globl {name}\n.type {name}, @function\n{name}:\n" for name in names)
        source.write_text(text + "ud2\n.section .note.GNU-stack,\"\",@progbits\n")
        versions = "".join(
            f"{version} {{ global: {' '.join(f'{name};' for name in sorted(group))} }};\n"
            for version, group in by_version.items() if version)
        script.write_text(versions)
        flags = [f"-Wl,--version-script={script}"] if versions else []
        subprocess.run(
            ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}", *flags, str(source), "-o", str(folder / soname)],
            check=True)


def main(site):
    folder = site / "torch" / "lib"
    present = [*folder.glob("*.so*"), *site.glob("nvidia/**/*.so*")]
    missing = missing_libraries(present)
    wanted = defaultdict(set)
    loose = set()
    for library in folder.glob("*.so*"):
        for name, version, file in undefined_symbols(library):
            if file in missing:
                wanted[file].add((name, version))
            elif not version and NVIDIAS.match(name):
                loose.add((name, ""))
    for soname in missing:
        make(folder, soname, wanted[soname] | loose)
    print(f"torch_without_cuda: {', '.join(sorted(missing))}", file=sys.stderr)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
