"""Compute what the files of a pod's cgroup hold for its amounts. No I/O.

    v1   cpu.shares, cpu.cfs_quota_us (period 100 ms), memory.limit_in_bytes
    v2   cpu.weight, cpu.max, memory.max, memory.high = 95 %

shares = clamp(mid-cpu * 1024 / 1000, 2, 262144) and weight = 1 + (shares - 2) * 9999 / 262142 are the kubelet's
formulas for requests. They count among the BestEffort pods alone: that group keeps its own weight, the smallest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from koordlet.cli.limiter.input_file import Amounts

PERIOD_MICROSECONDS: Final = 100_000
_LEAST_QUOTA_MICROSECONDS: Final = 1_000
"""Smallest quota that the kernel takes."""
_LEAST_SHARES, _MOST_SHARES = 2, 262_144
_GRAIN_BYTES: Final = 65_536
"""The largest page of a kernel: it rounds limits to whole pages."""
_HIGH_PERCENT: Final = 95
_UNLIMITED: Final = "-1"
_MAX: Final = "max"
UNLIMITED: Final = Amounts(0, 0)
"""Amounts of a pod that is not Mid: with them a group gets the values of the kubelet again."""


class FileValue(NamedTuple):
    """A file of a cgroup, and what it has to hold."""

    file: str
    value: str
    limits_memory_bytes: int = 0
    """Memory that remains usable after the write; 0 where it limits none."""


def cpu_v1(amounts: Amounts) -> tuple[FileValue, ...]:
    """Return the values of the CPU controller, v1."""
    quota = str(_quota(amounts)) if amounts.mid_cpu else _UNLIMITED
    return (
        FileValue("cpu.cfs_period_us", str(PERIOD_MICROSECONDS)),
        FileValue("cpu.cfs_quota_us", quota),
        FileValue("cpu.shares", str(_shares(amounts))),
    )


def memory_v1(amounts: Amounts) -> tuple[FileValue, ...]:
    """Return the values of the memory controller, v1."""
    limit = _rounded(amounts.mid_memory)
    return (FileValue("memory.limit_in_bytes", str(limit) if limit else _UNLIMITED, limit),)


def cpu_v2(amounts: Amounts) -> tuple[FileValue, ...]:
    """Return the values of the CPU controller, v2."""
    weight = 1 + (_shares(amounts) - _LEAST_SHARES) * 9999 // 262_142
    quota = str(_quota(amounts)) if amounts.mid_cpu else _MAX
    return FileValue("cpu.max", f"{quota} {PERIOD_MICROSECONDS}"), FileValue("cpu.weight", str(weight))


def memory_v2(amounts: Amounts) -> tuple[FileValue, ...]:
    """Return the values of the memory controller, v2. The first one reclaims, so that the second one kills nothing."""
    limit = _rounded(amounts.mid_memory)
    high = _rounded(limit * _HIGH_PERCENT // 100)
    return (
        FileValue("memory.high", str(high) if limit else _MAX, high),
        FileValue("memory.max", str(limit) if limit else _MAX, limit),
    )


def while_in_use(wanted: FileValue, used_bytes: int, present: str) -> FileValue:
    """Return what a file holds while more memory is in use than `wanted` leaves: no more than now, and the usage.

    A limit that kills, or that the kernel refuses below the usage, leaves room for what is allocated meanwhile.
    """
    least = used_bytes if wanted.file == "memory.high" else used_bytes * 100 // _HIGH_PERCENT
    limit = _rounded(least + _GRAIN_BYTES - 1)
    if present.isdecimal():
        limit = max(min(int(present), limit), wanted.limits_memory_bytes)
    return FileValue(wanted.file, str(limit), limit)


def is_equal(file: str, seen: str, wanted: str) -> bool:
    """Return whether a file holds a value; the kernel shows an unlimited memory of v1 as its largest number."""
    if file == "memory.limit_in_bytes" and wanted == _UNLIMITED:
        return seen.isdecimal() and int(seen) >= 2**62
    return seen == wanted


def _shares(amounts: Amounts) -> int:
    return min(max(amounts.mid_cpu * 1024 // 1000, _LEAST_SHARES), _MOST_SHARES)


def _quota(amounts: Amounts) -> int:
    return max(amounts.mid_cpu * PERIOD_MICROSECONDS // 1000, _LEAST_QUOTA_MICROSECONDS)


def _rounded(amount_bytes: int) -> int:
    """Return a whole number of grains, at least one; 0 for no limit."""
    return max(amount_bytes // _GRAIN_BYTES, 1) * _GRAIN_BYTES if amount_bytes else 0
