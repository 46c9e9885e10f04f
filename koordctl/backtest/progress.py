"""Line of progress on stderr, with the time left; only on a terminal."""

from __future__ import annotations

import sys
import time


class Progress:
    """Nodes that are done, of all."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._begin = time.monotonic()

    def advance(self) -> None:
        """Count one more node."""
        self._done += 1
        if sys.stderr.isatty():
            left = (time.monotonic() - self._begin) / self._done * (self._total - self._done)
            end = "\n" if self._done == self._total else ""
            sys.stderr.write(f"\r{self._done} of {self._total} nodes, {left:.0f} s left   {end}")
            sys.stderr.flush()
