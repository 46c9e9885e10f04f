"""The writer thread: takes batches from the queue, sends them, and backs off after each failure.

Points remain queued while the server is away or denies access (token, bucket); points that it rejects for good are
dropped. Writing a point twice changes nothing, because InfluxDB identifies it by measurement, tags and time.
"""

from __future__ import annotations

import collections
import enum
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, Protocol

from apiserver_client.backoff import Backoff


class DropReason(enum.StrEnum):
    """Why a point was never written."""

    QUEUE_FULL = "queue_full"
    REFUSED = "refused"  # rejected by the server for good: malformed, or a field of another type
    SHUTDOWN = "shutdown"  # still queued when the time to drain was over


class PointQueue:
    """A queue of lines between one thread that adds and one that takes.

    Adding never blocks; when it is full the oldest points are dropped, since the newest are worth most: a dashboard
    shows the present, and a long outage leaves one gap, not many small ones.

    Lines that were taken are counted in `depth` until `done`, `refused` or `put_back`, so every line is accounted for:
    added = written + dropped + depth, always.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.added = 0
        self.written = 0
        self.dropped: dict[DropReason, int] = dict.fromkeys(DropReason, 0)
        self._waiting: collections.deque[str] = collections.deque()
        self._taken: Sequence[str] = ()
        self._lock = threading.Lock()

    @property
    def depth(self) -> int:
        """Number of points that are queued or in flight, at most `capacity` and one batch."""
        return len(self._waiting) + len(self._taken)

    def add(self, lines: Sequence[str]) -> None:
        """Add points, and drop the oldest ones beyond the capacity."""
        with self._lock:
            self.added += len(lines)
            self._waiting.extend(lines)
            self._shed()

    def take(self, most: int) -> Sequence[str]:
        """Return at most `most` of the oldest points. They are in flight until `done`, `refused` or `put_back`."""
        with self._lock:
            self._taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            return self._taken

    def done(self) -> None:
        """Count the points in flight as written."""
        with self._lock:
            self.written += len(self._taken)
            self._taken = ()

    def refused(self) -> None:
        """Drop the points in flight, which can never be written."""
        with self._lock:
            self.dropped[DropReason.REFUSED] += len(self._taken)
            self._taken = ()

    def put_back(self) -> None:
        """Queue the points in flight again, as the oldest ones."""
        with self._lock:
            self._waiting.extendleft(reversed(self._taken))
            self._taken = ()
            self._shed()

    def abandon(self) -> int:
        """Drop all points, and return their number."""
        with self._lock:
            dropped = self.depth
            self.dropped[DropReason.SHUTDOWN] += dropped
            self._waiting.clear()
            self._taken = ()
            return dropped

    def _shed(self) -> None:
        while len(self._waiting) > self.capacity:
            self._waiting.popleft()
            self.dropped[DropReason.QUEUE_FULL] += 1


log = logging.getLogger(__name__)

_LONGEST_RETRY_AFTER_SECONDS: Final = 300.0
"""Longest pause for a Retry-After of the server."""


class Failure(enum.StrEnum):
    """Kind of a failed write."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    REFUSED = "refused"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    CREDENTIALS = "credentials"  # token or CA file cannot be read
    UNEXPECTED = "unexpected"


class WriteFailed(Exception):
    """A failed write; the text is one line for the operator of the agent."""

    def __init__(self, failure: Failure, text: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(text)
        self.failure = failure
        self.retry_after_seconds = retry_after_seconds


class Destination(Protocol):
    """Receiver of points."""

    def write(self, lines: Sequence[str], timeout_ms: int) -> None:
        """Write points of line protocol with times in seconds. Raises WriteFailed."""


@dataclass(eq=False)
class Writer:
    """Thread that sends batches. `start` it once, and end it once with `request_drain` and `join`.

    `turn` is one step of the thread, and may be called without it.
    """

    queue: PointQueue
    destination: Destination
    _: KW_ONLY
    batch_points: int
    timeout_ms: int
    backoff: Backoff
    monotonic: Callable[[], float] = time.monotonic
    uniform: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        self.failures: dict[Failure, int] = dict.fromkeys(Failure, 0)
        self.last_success_seconds: float | None = None
        """Unix time of the last write that succeeded."""
        self._failed_in_a_row = 0
        self._last_failure: Failure | None = None
        self._drain_until: float | None = None
        self._has_points = threading.Event()
        self._is_ending = threading.Event()
        # A daemon thread: a server that never answers does not keep the process alive after the time to drain.
        self._thread = threading.Thread(target=self._run, name="influxdb-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Signal queued points. Does not shorten a pause after a failure."""
        self._has_points.set()

    def request_drain(self, seconds: float) -> None:
        """Write the queued points for at most `seconds`, until the first failure, then end. Returns at once."""
        self._drain_until = self.monotonic() + seconds
        self._is_ending.set()
        self._has_points.set()

    def join(self) -> None:
        """Wait for the end of draining, at most its time. Points that remain are counted as dropped."""
        if self._drain_until is not None:
            self._thread.join(max(self._drain_until - self.monotonic(), 0.0))
        if abandoned := self.queue.abandon():
            log.warning("InfluxDB exporter: ended with %d points not written", abandoned)

    def _run(self) -> None:
        while self._drain_until is None:
            pause = self.turn()
            if pause is None:
                self._has_points.wait()
                self._has_points.clear()
            else:
                self._is_ending.wait(pause)
        self.drain()

    def drain(self) -> None:
        """Write until the queue is empty, the time is over or a write fails: a server that was away gets one try."""
        pause: float | None = 0.0
        while pause == 0.0 and self.monotonic() < (self._drain_until or 0.0):
            pause = self.turn()

    def turn(self) -> float | None:
        """Write one batch. Return the seconds until the next turn: None until woken, 0 when there are more points."""
        lines = self.queue.take(self.batch_points)
        if not lines:
            return None
        try:
            self.destination.write(lines, self._patience_ms())
        except WriteFailed as problem:
            return self._failed(problem)
        except Exception as error:
            return self._failed(WriteFailed(Failure.UNEXPECTED, f"unexpected error of a write: {error!r}"))
        self.queue.done()
        self._succeeded()
        return 0.0 if self.queue.depth else None

    def _patience_ms(self) -> int:
        if self._drain_until is None:
            return self.timeout_ms
        left_ms = int((self._drain_until - self.monotonic()) * 1000)
        return max(min(self.timeout_ms, left_ms), 1)

    def _succeeded(self) -> None:
        self.last_success_seconds = time.time()
        self._failed_in_a_row = 0
        if self._last_failure is not None:
            dropped = sum(self.queue.dropped.values())
            log.info(
                "InfluxDB exporter: writing again, %d points queued, %d dropped since the start",
                self.queue.depth,
                dropped,
            )
            self._last_failure = None

    def _failed(self, problem: WriteFailed) -> float:
        """Count a failure, log it once, and return the pause in seconds."""
        self.failures[problem.failure] += 1
        if problem.failure is not self._last_failure:
            log.warning("InfluxDB exporter: %s", problem)
            self._last_failure = problem.failure
        if problem.failure is Failure.REFUSED:
            self.queue.refused()
            self._failed_in_a_row = 0
            return 0.0
        self.queue.put_back()
        pause = self.backoff.seconds(self._failed_in_a_row, self.uniform)
        self._failed_in_a_row += 1
        return max(pause, min(problem.retry_after_seconds, _LONGEST_RETRY_AFTER_SECONDS))
