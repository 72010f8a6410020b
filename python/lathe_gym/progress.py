"""How far many evaluations are, for people who watch."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Optional, TextIO

_REDRAW_SECONDS = 0.1
_LONGEST_BAR = 40


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class ProgressBar:
    """A line of text that is written again and again; nothing where the stream, standard error by default, is no
    terminal. Clients take it as `progress`, and `progress=True` makes one."""

    def __init__(self, stream: Optional[TextIO] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream is not None and self._stream.isatty()
        self._begin = time.monotonic()
        self._drawn = 0.0
        self._is_open = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._is_shown or (done < total and now - self._drawn < _REDRAW_SECONDS):
            return
        self._drawn = now
        self._is_open = True
        self._stream.write("\r" + self._line(done, total, now - self._begin) + "\x1b[K")
        if done >= total:
            self.close()
        self._stream.flush()

    def close(self) -> None:
        """Ends the line, if one has begun."""
        if self._is_open:
            self._is_open = False
            self._stream.write("\n")
            self._stream.flush()

    @staticmethod
    def _line(done: int, total: int, seconds: float) -> str:
        counts = f"{done:{len(str(total))}}/{total} "
        times = f" {_clock(seconds)}"
        if 0 < done < total:
            times += f", {_clock(seconds * (total - done) / done)} left"
        columns = shutil.get_terminal_size().columns - 1
        width = min(_LONGEST_BAR, columns - len(counts) - len(times) - 2)
        if width < 4:
            return (counts + times.strip())[:columns]
        full = width * done // max(total, 1)
        return f"{counts}[{'#' * full}{'.' * (width - full)}]{times}"
