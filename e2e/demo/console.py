"""Output of the demo: a heading for each step, the command lines of a user, their output, and the duration of waits."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from typing import TypeVar

from e2e.demo.steps import Line, Step
from e2e.demo.terminal import Terminal

T = TypeVar("T")

_WIDTH = 110
_MOST_LINES = 40
_REMINDER_SECONDS = 15.0


class DemoStopped(Exception):
    """The demo cannot continue. The text names what was expected and what was seen last."""


class NotYet(Exception):
    """A check does not hold yet. The text states what was seen."""


class Console:
    """Types command lines and prints what happens.

    patience: factor on every time limit; above 1 on a busy machine. names: words of later lines, by what was found.
    """

    def __init__(
        self,
        terminal: Terminal,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.patience = 1.0
        self.names: dict[str, str] = {}
        self._terminal = terminal
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

    def perform(self, step: Step) -> None:
        """Type the lines of a step. Raises DemoStopped where one has another result, or the time is over."""
        self.step(step.title, step.text)
        started, limit = self._clock(), step.within_seconds * self.patience
        for line in step.lines:
            self._type(line.with_names(self.names), started + limit)
        self.confirm(f"done in {self._clock() - started:.0f} s, of at most {limit:.0f} s")

    def _type(self, line: Line, end: float) -> None:
        print(f"\n  \033[36m$ {line.text}\033[0m", flush=True)
        while lacks := line.lacks(typed := self._terminal.run(line, end - self._clock())):
            if not line.repeats or self._clock() >= end:
                raise DemoStopped(f"$ {line.text}: {lacks}; it printed:\n{typed.output}")
            self._sleep(1)
        self.show(typed.output)
        if line.finds:
            self.names[line.finds] = line.name_in(typed)

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
