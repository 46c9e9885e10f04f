"""Two readings of a CPU counter become a rate, or a reason why they do not; node minus pods becomes system usage.

A rate divides by the time that really passed between the two reads, on a clock that no one can set. A counter that
went back, or that belongs to another group than the one before, says nothing about the time between: it yields no
sample, never a number.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

from koordlet.samples import UsageSample

_IMPOSSIBLE_RATE_FACTOR = 2
"""A rate above this many times the machine's CPUs is refused. Not 1: the stamp of a delayed read is late."""


class CpuReading(NamedTuple):
    """A cumulative CPU counter at one instant."""

    counter: int
    """Which counter it is: a new group under an old name has another one (for cgroup files the inode number)."""
    cpu_nanoseconds: int
    """CPU time used since the counter began."""
    at_nanoseconds: int
    """Monotonic time of the read, not a wall clock."""


class NoRate(enum.StrEnum):
    """Why two readings give no rate."""

    FIRST_READING = "first reading: a rate needs two"
    OTHER_COUNTER = "the group was recreated since the reading before"
    WENT_BACK = "the counter went back"
    NO_TIME_PASSED = "no time passed since the reading before"
    IMPOSSIBLE = "the rate is more than the machine's CPUs can do"


def cpu_cores(before: CpuReading | None, now: CpuReading, cpu_count: int | None) -> float | NoRate:
    """Mean number of cores in use between two readings: (now - before) CPU time / elapsed time.

    `cpu_count` bounds what is possible; None sets no bound.
    """
    if before is None:
        return NoRate.FIRST_READING
    if before.counter != now.counter:
        return NoRate.OTHER_COUNTER
    elapsed = now.at_nanoseconds - before.at_nanoseconds
    if elapsed <= 0:
        return NoRate.NO_TIME_PASSED
    used = now.cpu_nanoseconds - before.cpu_nanoseconds
    if used < 0:
        return NoRate.WENT_BACK
    if cpu_count is not None and used > _IMPOSSIBLE_RATE_FACTOR * cpu_count * elapsed:
        return NoRate.IMPOSSIBLE
    return used / elapsed


def system_usage(node: UsageSample, pods: Iterable[UsageSample]) -> UsageSample:
    """System = max(node - sum of pods, 0), for each resource. All of one snapshot, and all the pods there are."""
    cpu_cores_left, memory_bytes_left = node
    for pod in pods:
        cpu_cores_left -= pod.cpu_cores
        memory_bytes_left -= pod.memory_bytes
    return UsageSample(max(cpu_cores_left, 0.0), max(memory_bytes_left, 0.0))
