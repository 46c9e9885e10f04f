"""Usage that was held down: by CPU limits, or by a shortage of memory.

Such usage understates what pods need, so nothing may learn from it that a forecast was high enough. Only the pods that
are predicted are considered: a pod of another class that waits for its own limit holds down no usage but its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from koordlet.collectors import node_pressure, pod_pressure
from koordlet.collectors.interface import Collector
from koordlet.samples import Resource, UsageSample

LEAST_THROTTLED_RATIO: Final = 0.25
"""Smallest share of throttled periods of a throttled pod; alerts on Kubernetes usually use the same."""
_LEAST_USAGE_SHARE: Final = 0.1
"""Smallest share of the usage that held-down pods have where the whole of it counts as held down."""
_LEAST_WAITING_SHARE: Final = 0.1
"""Smallest share of the time in which tasks wait for memory where a pod, or the machine, counts as short of it."""
_WINDOW_SECONDS: Final = pod_pressure.POD_PRESSURE_TICKS - 1.0
"""Each pod is read once in so many ticks of a second, with a second for the jitter of the caller."""
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
        """Time of the last call, and the seconds that tasks of the machine waited for memory until then."""
        self._window: tuple[float, Mapping[str, float]] | None = None
        """Begin of the window, and the seconds that tasks of each pod waited for memory until then."""
        self._short: Collection[str] = ()
        """Pods that were short of memory in the window before."""

    def resources(
        self, now_seconds: float, collectors: Collection[Collector], usage_by_pod: Mapping[str, UsageSample]
    ) -> frozenset[Resource]:
        """Return them for the usage of some pods, by UID. Time is counted since boot.

        Where the kernel counts no pressure of pods (cgroup v1), that of the machine counts in its place, and a kernel
        without pressure files never counts as short of memory.
        """
        cores = {uid: sample.cpu_cores for uid, sample in usage_by_pod.items()}
        used_bytes = {uid: sample.memory_bytes for uid, sample in usage_by_pod.items()}
        waited = pod_pressure.waits(collectors, Resource.MEMORY)
        if waited:
            self._follow_pods(now_seconds, waited)
            is_short = _have_a_tenth(self._short, used_bytes)
        else:
            is_short = self._is_machine_short(now_seconds, collectors)
        capped = {Resource.CPU: _have_a_tenth(throttled(collectors), cores), Resource.MEMORY: is_short}
        return frozenset(resource for resource, is_capped in capped.items() if is_capped)

    def _follow_pods(self, now_seconds: float, waited: Mapping[str, float]) -> None:
        if self._window is None:
            self._window = now_seconds, waited
            return
        begin_seconds, before = self._window
        passed = now_seconds - begin_seconds
        if passed < _WINDOW_SECONDS:
            return
        least = _LEAST_WAITING_SHARE * passed
        self._short = {uid for uid, seconds in waited.items() if seconds - before.get(uid, seconds) >= least}
        self._window = now_seconds, waited

    def _is_machine_short(self, now_seconds: float, collectors: Iterable[Collector]) -> bool:
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


def _have_a_tenth(uids: Iterable[str], usage_by_pod: Mapping[str, float]) -> bool:
    """Return whether some pods have a tenth of the usage. What is not measured counts nothing."""
    measured = {uid: usage for uid, usage in usage_by_pod.items() if math.isfinite(usage)}
    usage_of_some = sum(measured.get(uid, 0.0) for uid in uids)
    return usage_of_some > 0 and usage_of_some >= _LEAST_USAGE_SHARE * sum(measured.values())
