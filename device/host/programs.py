"""Instead of the programs that Python's own library starts, which a candidate may not."""

import _posixsubprocess
import ctypes.util
import errno
import os
import subprocess

FOLDERS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def find_library(name):
    """As that of ctypes.util, which asks ldconfig and compilers."""
    for folder in FOLDERS:
        try:
            found = sorted(file for file in os.listdir(folder) if file.startswith("lib%s.so" % name))
        except OSError:
            continue
        if found:
            return found[-1]
    return None


def refuse(*_arguments, **_options):
    raise PermissionError(errno.EPERM, "a candidate starts no programs")


def install():
    ctypes.util.find_library = find_library
    # What asks whether there is a program goes on without it.
    subprocess._fork_exec = _posixsubprocess.fork_exec = refuse
    os.posix_spawn = os.posix_spawnp = os.system = refuse
