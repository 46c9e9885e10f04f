"""Amounts of the demo: what a node has and uses, what a pod has to request. Pure: objects of the apiserver in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

MIB = 1 << 20
BUSY_PERCENT = 50
"""CPU usage from which the machine counts as busy: with the demo's own pods it may exceed the scheduler's threshold."""
_SCALE = {"k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


class Amount(NamedTuple):
    """CPU in milli-cores and memory in bytes."""

    cpu_millis: int
    memory_bytes: int

    @classmethod
    def of(cls, resources: Mapping[str, Any]) -> Amount:
        """Return the amount in a native resource list; a missing resource is 0."""
        return cls(cpu_millis(resources.get("cpu", "0")), units(resources.get("memory", "0")))


def units(text: str | int) -> int:
    """Return the whole units of a quantity such as 7Gi. Raises ValueError."""
    value = str(text)
    for suffix, factor in _SCALE.items():
        if value.endswith(suffix) and value.removesuffix(suffix).isdigit():
            return int(value.removesuffix(suffix)) * factor
    return int(value)


def cpu_millis(text: str | int) -> int:
    """Return the milli-cores of a CPU quantity such as 250m or 2. Raises ValueError."""
    value = str(text)
    return int(value.removesuffix("m")) if value.endswith("m") else int(float(value) * 1000)


def shop_request(allocatable: Amount, requested: Amount, used: Amount) -> Amount:
    """Return the request of shop: more than half of the node, so that it exceeds what the whole node is using.

    Memory exceeds the node's usage by a quarter and 1 GiB where the node has room; a tenth of the node stays free.
    """
    room = Amount(*(total * 9 // 10 - taken for total, taken in zip(allocatable, requested, strict=True)))
    memory = max(allocatable.memory_bytes // 2, used.memory_bytes * 5 // 4 + 1024 * MIB)
    return Amount(
        max(min(allocatable.cpu_millis * 55 // 100, room.cpu_millis), 100),
        max(min(memory, room.memory_bytes), 256 * MIB) // MIB * MIB,
    )


def noisy_cores(allocatable: Amount, used: Amount) -> float:
    """Return the cores to burn so that the node uses 85 % of its CPU, at least half a core."""
    return max(round((allocatable.cpu_millis * 85 / 100 - used.cpu_millis) / 1000, 1), 0.5)
