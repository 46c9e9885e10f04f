"""Usage that was held down: by CPU limits, or by a machine that is short of memory.

Such usage understates what pods need, so nothing may learn from it that a forecast was high enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from koordlet.collectors import node_pressure, pod_pressure
from koordlet.collectors.interface import Collector
from koordlet.samples import Resource

LEAST_THROTTLED_RATIO: Final = 0.25
"""Smallest share of throttled periods of a throttled pod; alerts on Kubernetes usually use the same."""
_LEAST_USAGE_SHARE: Final = 0.1
"""Smallest share of the usage that throttled pods have where the whole of it counts as held down."""
_LEAST_WAITING_SHARE: Final = 0.1
"""Smallest share of the time in which tasks wait for memory where the machine counts as short of it."""
_MEMORY_WAITS: Final = (Resource.MEMORY.value, "some")


def throttled(collectors: Iterable[Collector]) -> dict[str, float]:
    """Return the share of throttled periods of each throttled pod, by UID."""
    return {
        measured.pod_uid: measured.value
        for collector in collectors
        if pod_pressure.THROTTLED_RATIO in collector.metrics
        for measured in collector.measurements(pod_pressure.THROTTLED_RATIO)
        if measured.value >= LEAST_THROTTLED_RATIO
    }


class CappedUsage:
    """Detects the resources of which the usage was held down since the last call."""

    def __init__(self) -> None:
        self._waited: tuple[float, float] | None = None
        """Time of the last call, and the seconds waited for memory until then."""

    def resources(
        self, now_seconds: float, collectors: Collection[Collector], cores_by_pod: Mapping[str, float]
    ) -> frozenset[Resource]:
        """Return them for pods that used `cores_by_pod`, by UID. Time is counted since boot.

        A kernel without pressure files never counts as short of memory.
        """
        held = sum(cores_by_pod.get(uid, 0.0) for uid in throttled(collectors))
        is_throttled = held > 0 and held >= _LEAST_USAGE_SHARE * sum(cores_by_pod.values())
        capped = {Resource.CPU: is_throttled, Resource.MEMORY: self._is_short_of_memory(now_seconds, collectors)}
        return frozenset(resource for resource, is_capped in capped.items() if is_capped)

    def _is_short_of_memory(self, now_seconds: float, collectors: Iterable[Collector]) -> bool:
        before, self._waited = self._waited, None
        for collector in collectors:
            if node_pressure.WAITED_SECONDS in collector.metrics:
                for measured in collector.measurements(node_pressure.WAITED_SECONDS):
                    if measured.labels == _MEMORY_WAITS:
                        self._waited = now_seconds, measured.value
        if before is None or self._waited is None:
            return False
        passed, waited = (now - then for now, then in zip(self._waited, before, strict=True))
        return waited > 0 and waited >= _LEAST_WAITING_SHARE * passed
