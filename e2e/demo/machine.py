"""Measure how busy the node is before the demo starts."""

from __future__ import annotations

from typing import NamedTuple

from e2e.demo.checks import BUSY_PERCENT, Amount
from tools.localcluster import running

MEASURE_SECONDS = 3.0
BUSY_PATIENCE = 3.0
_KIBIBYTE = 1024


class Load(NamedTuple):
    """Share of all CPUs in use, in percent, and used memory as the kernel counts it."""

    cpu_percent: float
    memory_bytes: int

    def used(self, allocatable: Amount) -> Amount:
        """Return what the node uses of what it can allocate."""
        return Amount(round(allocatable.cpu_millis * self.cpu_percent / 100), self.memory_bytes)

    def patience(self) -> float:
        """Return the factor on time limits for a node that is busy."""
        return BUSY_PATIENCE if self.cpu_percent >= BUSY_PERCENT else 1.0


def measure(node: str, seconds: float = MEASURE_SECONDS) -> Load:
    """Return the load of a node, by its kernel. Raises ClusterProblem."""
    script = f"head -1 /proc/stat; sleep {seconds}; head -1 /proc/stat; cat /proc/meminfo"
    before, after, *memory = running.provider().shell(node, script).splitlines()
    ticks = [int(later) - int(earlier) for earlier, later in zip(before.split()[1:9], after.split()[1:9], strict=True)]
    idle = ticks[3] + ticks[4]  # with the time that waits for a disk
    sizes = {name: int(size.split()[0]) for name, size in (line.split(":") for line in memory)}
    used = (sizes["MemTotal"] - sizes["MemAvailable"]) * _KIBIBYTE
    return Load(100 * (1 - idle / sum(ticks)), used)
