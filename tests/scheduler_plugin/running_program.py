"""Run a program's `main` in the process of a test: observe it from a thread, and end it by a signal."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import os
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import prometheus_client
import psutil


class Interrupted(Exception):
    """A signal that would have ended the process."""


@contextlib.contextmanager
def process_as_before() -> Iterator[None]:
    """Undo what a program does to its process; a signal that it does not handle is an exception."""

    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted

    handlers = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    prometheus_client.enable_created_metrics()  # type: ignore[no-untyped-call]
    gc.unfreeze()


def listening() -> set[int]:
    """Return the ports on which this process listens."""
    return {each.laddr.port for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN}


def page(port: int, path: str) -> str | None:
    """Return a page; None where it is an error."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.read().decode()  # type: ignore[no-any-return]
    except urllib.error.HTTPError as error:
        error.close()
        return None


@contextlib.contextmanager
def signalled(number: signal.Signals, *, ports: int, once: Callable[[list[int]], bool]) -> Iterator[None]:
    """Send a signal to this process once it listens on so many more ports and `once` is true for them.

    After 15 s it is sent in any case, and the context ends with an error.
    """
    before, ended = listening(), threading.Event()

    def observe() -> None:
        try:
            for _ in range(750):
                new = sorted(listening() - before)
                if len(new) == ports and once(new):
                    return
                if ended.wait(0.02):
                    raise AssertionError("the program ended before the signal")
            raise AssertionError(f"the program listens on {new}, want {ports} ports and a true condition")
        finally:
            if not ended.is_set():
                os.kill(os.getpid(), number)

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        observed = thread.submit(observe)
        try:
            yield
        finally:
            ended.set()
    observed.result()
    assert listening() == before
