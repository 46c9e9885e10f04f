"""CPU that Mid pods may use, and the share of each container.

    allowed(Mid) = capacity * threshold - usage of Prod - max(usage of system, reserved)
    limit        = ratio * mid-cpu, between the floor and the original limit of the container

with the largest ratio for which the limits do not exceed what is allowed. The ratio is one for the whole node, so no
pod pays for another one, except where a floor or a stricter limit of an author holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from api_types.mid_pods.cpu_limits import MidContainer

_HALVINGS: Final = 12


def allowed_millis(
    capacity_millis: int, threshold_percent: int, *, prod_cores: float, system_cores: float, reserved_cores: float
) -> int:
    """Return the CPU that Mid pods may use, in millicores, at least 0."""
    taken = prod_cores + max(system_cores, reserved_cores)
    return max(int(capacity_millis * threshold_percent / 100 - taken * 1000), 0)


def limits_millis(allowed: int, containers: Sequence[MidContainer]) -> list[int]:
    """Return the limit of each container, in millicores. Their sum is at most `allowed`, unless floors exceed it."""
    full = [each.original_millis for each in containers]
    if sum(full) <= allowed:
        return full
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if sum(_limits(middle, containers)) <= allowed:
            low = middle
        else:
            high = middle
    return _limits(low, containers)


def _limits(ratio: float, containers: Sequence[MidContainer]) -> list[int]:
    return [max(min(int(ratio * each.mid_millis), each.original_millis), each.floor_millis) for each in containers]
