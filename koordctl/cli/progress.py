"""A line of progress while a command reads: on a terminal, and only after half a second."""

from __future__ import annotations

import shutil
import time
from typing import Final, Self, TextIO

_QUIET_SECONDS: Final = 0.5
_CLEAR: Final = "\r\x1b[K"


class ProgressLine:
    """The line; it is removed at the end of the block."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self._begin = time.monotonic()
        self._is_shown = False

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Remove the line."""
        if self._is_shown:
            self._to.write(_CLEAR)
            self._to.flush()

    def report(self, what: str, count: int) -> None:
        """Show the number of objects of a kind that are read."""
        self.show(f"reading {what}: {count}")

    def show(self, text: str) -> None:
        """Show a text in the place of the one before; it is cut to the width of the terminal."""
        if self._to.isatty() and time.monotonic() - self._begin >= _QUIET_SECONDS:
            self._is_shown = True
            self._to.write(_CLEAR + text[: shutil.get_terminal_size().columns - 1])
            self._to.flush()
