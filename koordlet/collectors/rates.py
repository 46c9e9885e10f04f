"""Conversion of two readings of a CPU counter to a rate or a reason for none; system usage as node minus pods.

A rate divides by the real time between the two reads, on a clock that cannot be set. A counter that went back, or that
belongs to another group than before, has no information on the time between: it gives no sample, never a number.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

from koordlet.samples import UsageSample

_IMPOSSIBLE_RATE_FACTOR = 2
"""A rate above this many times the machine's CPUs is rejected. Not 1: the time stamp of a delayed read is late."""


class CpuReading(NamedTuple):
    """A cumulative CPU counter at one instant."""

    counter: int
    """Identity of the counter: a new group under an old name has another one (for cgroup files the inode number)."""
    cpu_nanoseconds: int
    """CPU time used since the counter began."""
    at_nanoseconds: int
    """Monotonic time of the read, not a wall clock."""


class NoRate(enum.StrEnum):
    """Why two readings give no rate."""

    FIRST_READING = "first reading: a rate needs two"
    OTHER_COUNTER = "the group was recreated since the previous reading"
    WENT_BACK = "the counter went back"
    NO_TIME_PASSED = "no time passed since the previous reading"
    IMPOSSIBLE = "the rate exceeds the machine's CPUs"


def cpu_cores(before: CpuReading | None, now: CpuReading, cpu_count: int | None) -> float | NoRate:
    """Return the mean number of cores in use between two readings: (now - before) CPU time / elapsed time.

    `cpu_count` bounds the valid rates; None sets no bound.
    """
    if before is None:
        return NoRate.FIRST_READING
    if before.counter != now.counter:
        return NoRate.OTHER_COUNTER
    used, elapsed = now.cpu_nanoseconds - before.cpu_nanoseconds, now.at_nanoseconds - before.at_nanoseconds
    return cores_between(used, elapsed, cpu_count)


def cores_between(used_nanoseconds: int, elapsed_nanoseconds: int, cpu_count: int | None) -> float | NoRate:
    """Return the same for the differences of two readings of one counter."""
    if elapsed_nanoseconds <= 0:
        return NoRate.NO_TIME_PASSED
    if used_nanoseconds < 0:
        return NoRate.WENT_BACK
    if cpu_count is not None and used_nanoseconds > _IMPOSSIBLE_RATE_FACTOR * cpu_count * elapsed_nanoseconds:
        return NoRate.IMPOSSIBLE
    return used_nanoseconds / elapsed_nanoseconds


def system_usage(node: UsageSample, pods: Iterable[UsageSample]) -> UsageSample:
    """Return max(node - sum of pods, 0) for each resource. All values are of one snapshot, and of all pods."""
    cpu_cores_left, memory_bytes_left = node
    for pod in pods:
        cpu_cores_left -= pod.cpu_cores
        memory_bytes_left -= pod.memory_bytes
    return UsageSample(max(cpu_cores_left, 0.0), max(memory_bytes_left, 0.0))
