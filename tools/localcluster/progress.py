"""Progress lines with durations: `[ 12.3s] etcd ready (0.8 s)`.

Times are counted from the start of the command. A long step repeats its line every REPEAT_SECONDS.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

REPEAT_SECONDS = 15.0  # often enough to show life, seldom enough to read the log of a CI run

_started = time.monotonic()


def report(text: str, *, folds: bool = False) -> None:
    """Print one line with the seconds since the command began, to stderr: stdout carries results.

    On a terminal the next line takes the place of one that folds.
    """
    start, end = ("\r\033[K", "" if folds else "\n") if sys.stderr.isatty() else ("", "\n")
    print(f"{start}[{time.monotonic() - _started:6.1f}s] {text}", end=end, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(what: str, done: str = "done", so_far: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Report the begin of a long step, repeat the line with `so_far()` while it lasts, and report its duration."""
    report(f"{what} ...", folds=True)
    started = time.monotonic()
    finished = threading.Event()

    def repeat() -> None:
        while not finished.wait(REPEAT_SECONDS):
            report(f"{what}: {time.monotonic() - started:.0f} s so far {so_far()}".rstrip(), folds=True)

    reporter = threading.Thread(target=repeat, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        finished.set()
        reporter.join()
    report(f"{what}: {done} ({time.monotonic() - started:.1f} s)")


def wait_until(
    what: str, is_so: Callable[[], bool], timeout_seconds: float, *, otherwise: Callable[[], None], poll: float = 0.1
) -> None:
    """Poll `is_so` until it holds and report the duration; after the time-out call `otherwise`, which raises."""
    started = time.monotonic()
    reminded = started
    while not is_so():
        now = time.monotonic()
        if now - started > timeout_seconds:
            otherwise()
            raise TimeoutError(f"{what}: not so after {timeout_seconds:.0f} s")
        if now - reminded > REPEAT_SECONDS:
            reminded = now
            report(f"waiting for {what}: {now - started:.0f} s of at most {timeout_seconds:.0f} s", folds=True)
        time.sleep(poll)
    report(f"{what} ({time.monotonic() - started:.1f} s)")
