"""Tells what happens: a heading a step, the command a user would type, what it printed, how long a wait took."""

from __future__ import annotations

import shlex
import sys
import textwrap
import time
from collections.abc import Callable
from typing import TypeVar

from tools.localcluster.access import Cluster

T = TypeVar("T")

_WIDTH = 110
_MOST_LINES = 24


class Gone(Exception):
    """The story did not go on; the text says what was waited for and what was seen last."""


class Narrator:
    """Tells one story on one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._step = 0
        self._started = time.monotonic()

    def step(self, title: str, text: str = "") -> None:
        """Begin a step."""
        self._step += 1
        print(f"\n\033[1m{self._step}. {title}\033[0m  [{time.monotonic() - self._started:.0f} s]")
        if text:
            print(textwrap.fill(text, _WIDTH))

    def run(self, *words: str, stdin: str | None = None, show: bool = True, timeout_seconds: float = 180) -> str:
        """Show a kubectl (or helm) command, run it, show what it printed."""
        typed = shlex.join(words if words[0] == "helm" else ("kubectl", *words))
        print(f"\n  \033[36m$ {typed}{' <<END' if stdin else ''}\033[0m")
        if stdin:
            print(textwrap.indent(stdin.rstrip(), "  | "))
        answer = self.cluster.run(*words, stdin=stdin, timeout_seconds=timeout_seconds)
        if show:
            self.show(answer)
        return answer

    def show(self, answer: str) -> None:
        """Print an answer, cut to what fits a screen."""
        lines = answer.rstrip().splitlines()
        for line in lines[:_MOST_LINES]:
            print(f"  {line}")
        if len(lines) > _MOST_LINES:
            print(f"  ... {len(lines) - _MOST_LINES} lines more")

    def wait(self, what: str, look: Callable[[], T | None], timeout_seconds: float = 180) -> T:
        """Poll until `look` gives something, and tell how long that took. Raises Gone."""
        started = time.monotonic()
        reminded = started
        while True:
            if (found := look()) is not None:
                print(f"  \033[32m{what}\033[0m ({time.monotonic() - started:.0f} s)", flush=True)
                return found
            now = time.monotonic()
            if now - started > timeout_seconds:
                raise Gone(f"waited {timeout_seconds:.0f} s for: {what}")
            if now - reminded > 15:
                reminded = now
                print(f"  waiting for: {what} ({now - started:.0f} s of at most {timeout_seconds:.0f} s)", flush=True)
            sys.stdout.flush()
            time.sleep(1)
