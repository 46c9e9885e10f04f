"""An event loop whose time passes only while everything waits, and the clocks of each host on it.

The code under test reads `time.time`, `time.monotonic` and `clock.utc_now` as always. Within `installed` these answer
for the host of the running task: the clock of the agent's node steps, those of the other hosts do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime as dt
import os
import selectors
import time
from collections.abc import Iterator

START = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC).timestamp()


class Host:
    """Clocks of one machine: the wall clock may be set, and the monotonic one stands still while it is suspended."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wall_offset = 0.0
        self.suspended_seconds = 0.0

    def wall(self) -> float:
        return START + now() + self.wall_offset

    def monotonic(self) -> float:
        return 10_000 + now() - self.suspended_seconds

    def since_boot(self) -> float:
        return 10_000 + now()


CONTROL_PLANE = Host("control plane")
HOST: contextvars.ContextVar[Host] = contextvars.ContextVar("host", default=CONTROL_PLANE)


class _Selector(selectors.DefaultSelector):
    """Where the loop would sleep, its time moves on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "every task waits, and none for a time"
            self.now += max(timeout, 0.0)
        return ready


class Loop(asyncio.SelectorEventLoop):
    """Runs at the time of its own clock."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._virtual.now

    def jump(self, seconds: float) -> None:
        """Let time pass while every machine is suspended."""
        self._virtual.now += seconds


def now() -> float:
    """Return the seconds since the start of the run."""
    return asyncio.get_running_loop().time()


async def _inline(function, /, *args, **kwargs):
    """Stand in for `asyncio.to_thread`: a thread would run in real time."""
    if getattr(function, "__name__", "") == "wait":  # of a threading.Event
        await asyncio.sleep(args[0])
        return function.__self__.is_set()
    return function(*args, **kwargs)


@contextlib.contextmanager
def installed(monkeypatch) -> Iterator[None]:
    """Replace the clocks of the process; `monkeypatch` restores them."""
    readings = {
        time.CLOCK_REALTIME: Host.wall,
        time.CLOCK_MONOTONIC: Host.monotonic,
        time.CLOCK_BOOTTIME: Host.since_boot,
        time.CLOCK_MONOTONIC_RAW: Host.monotonic,
    }

    def read(clock_id):
        return readings[clock_id](HOST.get())

    monkeypatch.setattr(time, "time", lambda: HOST.get().wall())
    monkeypatch.setattr(time, "time_ns", lambda: int(HOST.get().wall() * 1e9))
    monkeypatch.setattr(time, "monotonic", lambda: HOST.get().monotonic())
    monkeypatch.setattr(time, "monotonic_ns", lambda: int(HOST.get().monotonic() * 1e9))
    monkeypatch.setattr(time, "clock_gettime", read)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock_id: int(read(clock_id) * 1e9))
    monkeypatch.setattr("component_base.clock.utc_now", lambda: dt.datetime.fromtimestamp(HOST.get().wall(), dt.UTC))
    monkeypatch.setattr(asyncio, "to_thread", _inline)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    yield


def run(coroutine):
    """Run a coroutine on a loop of virtual time."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(coroutine)
