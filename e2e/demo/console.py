"""Output of the demo: a heading for each step, the commands of a user, their output, and the duration of waits."""

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
_MOST_LINES = 40
_REMINDER_SECONDS = 15.0


class DemoStopped(Exception):
    """The demo cannot continue. The text names what was expected and what was seen last."""


class NotYet(Exception):
    """A check does not hold yet. The text states what was seen."""


class Console:
    """Runs commands on one cluster and prints what happens.

    patience: factor on every time limit; above 1 on a busy machine.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.cluster = cluster
        self.patience = 1.0
        self._clock = clock
        self._sleep = sleep
        self._step = 0
        self._started = clock()

    def step(self, title: str, text: str = "") -> None:
        """Begin a step."""
        self._step += 1
        print(f"\n\033[1m{self._step}. {title}\033[0m  [{self._clock() - self._started:.0f} s]")
        if text:
            self.explain(text)

    def explain(self, text: str) -> None:
        """Print a paragraph."""
        print(textwrap.fill(text, _WIDTH))

    def confirm(self, text: str) -> None:
        """Print a fact that was checked."""
        print(textwrap.fill(text, _WIDTH, initial_indent="  \033[32m", subsequent_indent="  ") + "\033[0m", flush=True)

    def warn(self, text: str) -> None:
        """Print a fact that differs from the usual course of the demo."""
        print(textwrap.fill(text, _WIDTH, initial_indent="  \033[33m", subsequent_indent="  ") + "\033[0m", flush=True)

    def run(self, *words: str, stdin: str | None = None, show: bool = True, timeout_seconds: float = 180) -> str:
        """Print a kubectl (or helm) command, run it, print its output and return it. Raises ClusterProblem."""
        typed = shlex.join(words if words[0] == "helm" else ("kubectl", *words))
        print(f"\n  \033[36m$ {typed}{' <<END' if stdin else ''}\033[0m", flush=True)
        if stdin:
            print(textwrap.indent(stdin.rstrip(), "  | "))
        output = self.cluster.run(*words, stdin=stdin, timeout_seconds=timeout_seconds * self.patience)
        if show:
            self.show(output)
        return output

    def show(self, output: str) -> None:
        """Print output, cut to the size of a screen."""
        lines = output.rstrip().splitlines()
        for line in lines[:_MOST_LINES]:
            print(f"  {line}")
        if len(lines) > _MOST_LINES:
            print(f"  ... {len(lines) - _MOST_LINES} lines more")

    def wait(self, what: str, check: Callable[[], T], timeout_seconds: float = 180) -> T:
        """Repeat `check` until it no longer raises NotYet, print how long that took, and return its result.

        Raises DemoStopped with the last NotYet after the time limit.
        """
        limit = timeout_seconds * self.patience
        started = reminded = self._clock()
        while True:
            try:
                found = check()
            except NotYet as seen:
                now = self._clock()
                if now - started > limit:
                    raise DemoStopped(f"waited {limit:.0f} s for: {what}; seen last: {seen}") from seen
                if now - reminded > _REMINDER_SECONDS:
                    reminded = now
                    print(f"  waiting for: {what} ({now - started:.0f} s of at most {limit:.0f} s; {seen})", flush=True)
            else:
                self.confirm(f"{what} ({self._clock() - started:.0f} s)")
                return found
            sys.stdout.flush()
            self._sleep(1)
