"""The `lathe` program: the wheel's own, or the one on the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional, Sequence


def program() -> Path:
    """Raises FileNotFoundError where there is none."""
    own = Path(__file__).parent / "lathe" / "bin" / "lathe"
    if own.exists():
        return own
    found = shutil.which("lathe", path=os.pathsep.join(p for p in os.get_exec_path() if not _is_ours(p)))
    if found:
        return Path(found)
    raise FileNotFoundError("this installation of lathe-gym carries no lathe program and none is on the PATH")


def _is_ours(folder: str) -> bool:
    """Whether the folder's `lathe` is main() below."""
    return Path(folder) == Path(sys.argv[0]).resolve().parent


def main() -> None:
    path = str(program())
    os.execv(path, [path, *sys.argv[1:]])


class LocalService:
    """`lathe serve` on a free port of this machine for as long as the context lasts, and no longer than this process.

    `device`: "auto", "cpu", "cuda", "cuda:N" or "cuda:all". `store`: a folder that keeps queue and verdicts;
    without one they go with the service. `more`: further arguments of `lathe serve`."""

    def __init__(self, device: str = "auto", store: Optional[str] = None, more: Sequence[str] = ()) -> None:
        self._device = device
        self._store = store
        self._more = list(more)
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None
        self._process: Optional[subprocess.Popen[str]] = None
        self.url = ""

    def __enter__(self) -> "LocalService":
        if self._store is None:
            self._folder = tempfile.TemporaryDirectory(prefix="lathe-")
        store = self._folder.name if self._folder else str(self._store)
        log = Path(store) / "serve.log"
        Path(store).mkdir(parents=True, exist_ok=True)
        options = ["--port", "0", "--until-eof", "--device", self._device, "--store", store]
        with open(log, "w") as errors:
            self._process = subprocess.Popen(
                [str(program()), "serve", *options, *self._more],
                stdin=subprocess.PIPE,  # held open for as long as this process lives, however it ends
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout
        try:
            for line in self._process.stdout:
                found = re.search(r"http://\S+", line)
                if found:
                    self.url = found.group(0)
                    return self
            self._process.wait()
        except BaseException:  # Ctrl-C
            self.__exit__()
            raise
        reason = log.read_text(errors="replace").strip().splitlines()[-3:]
        self.__exit__()
        raise RuntimeError("lathe serve did not start: " + " / ".join(reason))

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
            self._process = None
        if self._folder:
            self._folder.cleanup()
            self._folder = None
