"""CPU that Mid pods may use, and the share of each container.

    allowed(Mid) = capacity * threshold - usage of Prod - max(usage of system, reserved)
    limit        = ratio * request of mid-cpu, between the floor and the original limit of the container

with the largest ratio for which the limits do not exceed what is allowed. The ratio is one for the whole node, so no
pod pays for another one, except where a floor or a stricter limit of an author holds. Requests are the weights because
schedulers and quotas count them: a limit of mid-cpu may be any number, and reserves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from api_types.mid_pods.cpu_limits import MidContainer


def allowed_millis(
    capacity_millis: int, threshold_percent: int, *, prod_cores: float, system_cores: float, reserved_cores: float
) -> int:
    """Return the CPU that Mid pods may use, in millicores, at least 0."""
    taken = prod_cores + max(system_cores, reserved_cores)
    return max(int(capacity_millis * threshold_percent / 100 - taken * 1000), 0)


def limits_millis(allowed: int, containers: Sequence[MidContainer]) -> list[int]:
    """Return the limit of each container, in millicores. Their sum is at most `allowed`, unless floors exceed it."""
    full = [container.original_millis for container in containers]
    if sum(full) <= allowed:
        return full
    rest, weights = allowed - sum(container.floor_millis for container in containers), 0
    for ratio, freed, weight in sorted(_bends(containers)):
        if weights * ratio > rest:
            break
        rest, weights = rest + freed, weights + weight
    return [_limit(container, rest, weights) for container in containers]


def _bends(containers: Sequence[MidContainer]) -> Iterator[tuple[float, int, int]]:
    """Yield each ratio at which a container leaves its floor or reaches its original.

    With it the amount that no longer is, or now is, taken whatever the ratio, and the weight that begins or ends to
    count.
    """
    for container in containers:
        weight = _weight(container)
        yield container.floor_millis / weight, container.floor_millis, weight
        yield container.original_millis / weight, -container.original_millis, -weight


def _limit(container: MidContainer, rest: int, weights: int) -> int:
    """Return the limit at the ratio `left / weights`; without weights no container is above its floor."""
    share = _weight(container) * rest // weights if weights else 0
    return max(min(share, container.original_millis), container.floor_millis)


def _weight(container: MidContainer) -> int:
    return max(container.requested_millis, 1)
