"""Conversion of two readings of a CPU counter to a rate or a reason for none; system usage as node minus pods.

A rate divides by the real time between the two reads, on a clock that cannot be set. A counter that went back, or that
belongs to another group than before, has no information on the time between: it gives no sample, never a number.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from koordlet.samples import UsageSample

_IMPOSSIBLE_RATE_FACTOR = 2
"""A rate above this many times the machine's CPUs is rejected. Not 1: the time stamp of a delayed read is late."""


class NoRate(enum.StrEnum):
    """Why two readings give no rate."""

    FIRST_READING = "first reading: a rate needs two"
    OTHER_COUNTER = "the group was recreated since the previous reading"
    WENT_BACK = "the counter went back"
    NO_TIME_PASSED = "no time passed since the previous reading"
    IMPOSSIBLE = "the rate exceeds the machine's CPUs"


def cores_between(used_nanoseconds: int, elapsed_nanoseconds: int, cpu_count: int | None) -> float | NoRate:
    """Return the mean number of cores in use by the CPU and the elapsed time between two readings of one counter.

    `cpu_count` bounds the valid rates; None sets no bound.
    """
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
