"""CPU usage of the node over the last seconds, in the parts that decide about Mid pods.

Classes here follow priorities: the label of a class may be changed while a pod runs, its priority may not. A pod whose
priority is Mid never counts as Prod, and a pod with another priority never counts as Mid.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster.pods import PodOnNode, PodTable
from koordlet.metric_cache import series
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind, UsageSample, pod_key

LEAST_SECONDS: Final = 5.0
"""Time for which usage has to be above the threshold."""
STALE_SECONDS: Final = 10.0
"""Age from which a sample does not count."""
_TOLERANCE_SECONDS: Final = 0.5
_SLOW_SECONDS: Final = 20.0
"""Time constant of the slow mean."""


class CoresByPart(NamedTuple):
    """CPU usage of a node in cores, and the parts that Mid pods cannot have."""

    node: float
    prod: float
    system: float
    beyond_limits: float = 0.0
    """Usage of Mid pods above their limits: those that cannot be lowered, or do not hold."""


@dataclass(frozen=True, slots=True)
class SuppressionPods:
    """Pods of a node, as the usage of Prod counts them."""

    version: int
    mid: tuple[PodOnNode, ...]
    """Pods whose priority is Mid, sorted by namespace and name."""
    is_lowered: bool
    """Whether a limit of one of them is below its original."""
    of_other_classes: frozenset[SeriesKey]
    """Series of pods of another class than Prod."""

    @classmethod
    def sort(cls, table: PodTable) -> Self:
        """Sort the pods of the node."""
        pods = table.active()
        return cls(
            table.version,
            tuple(pod for pod in pods if pod.mid is not None),
            any(pod.mid is not None and pod.mid.is_lowered for pod in pods),
            frozenset(
                pod_key(pod.uid) for pod in pods if series.counted_class(pod.priority_class) is not PriorityClass.PROD
            ),
        )


def from_samples(newest: Mapping[SeriesKey, UsageSample], pods: SuppressionPods) -> CoresByPart | None:
    """Return the usage of one instant; None where that of the node, or of all pods, is unknown.

    The usage of a pod that is new, or has just ended, counts as that of the system, which is an upper bound: short
    pods, one after the other, must not switch suppression off.
    """
    node, system, prod = (newest.get(key) for key in (NODE, SYSTEM, series.PROD))
    if node is None:
        return None
    if system is not None and prod is not None:
        cores, rest = prod.cpu_cores, system.cpu_cores
    else:
        measured = {key: sample.cpu_cores for key, sample in newest.items() if key.kind is SeriesKind.POD}
        if not measured:
            return None
        cores = math.fsum(used for key, used in measured.items() if key not in pods.of_other_classes)
        rest = max(node.cpu_cores - math.fsum(measured.values()), 0.0)
    return CoresByPart(node.cpu_cores, cores, rest)


class _Sample(NamedTuple):
    begin_seconds: float
    end_seconds: float
    usage: CoresByPart


class RecentUsage:
    """Mean usage over the last seconds. Times are of a monotonic clock."""

    def __init__(self) -> None:
        self._samples: collections.deque[_Sample] = collections.deque()
        self._slow: float | None = None
        self._above_since: float | None = None

    def add(self, begin_seconds: float, end_seconds: float, usage: CoresByPart, threshold_cores: float) -> None:
        """Add a sample: the mean over its time, in relation to the threshold of that time."""
        seconds = end_seconds - begin_seconds
        if seconds <= 0:
            return
        self._samples.append(_Sample(begin_seconds, end_seconds, usage))
        slow = min(usage.node, threshold_cores) if self._slow is None else self._slow
        self._slow = usage.node + (slow - usage.node) * math.exp(-seconds / _SLOW_SECONDS)
        if max(usage.node, self._slow) <= threshold_cores:
            self._above_since = None
        elif self._above_since is None:
            self._above_since = begin_seconds

    def is_busy(self, now_seconds: float) -> bool:
        """Return whether the node's usage was above the threshold for 5 s.

        Usage that swings around the threshold is above it while its slow mean is.
        """
        return self._above_since is not None and now_seconds - self._above_since >= LEAST_SECONDS - _TOLERANCE_SECONDS

    def mean(self, now_seconds: float) -> CoresByPart | None:
        """Return the mean of the newest samples over at least 5 s; None where fewer of the last 10 s are known."""
        while self._samples and now_seconds - self._samples[0].end_seconds >= STALE_SECONDS:
            self._samples.popleft()
        covered, total = 0.0, (0.0, 0.0, 0.0, 0.0)
        for begin, end, usage in reversed(self._samples):
            covered += end - begin
            total = tuple(sum_ + (end - begin) * cores for sum_, cores in zip(total, usage, strict=True))  # type: ignore[assignment]
            if covered >= LEAST_SECONDS - _TOLERANCE_SECONDS:
                return CoresByPart(*(sum_ / covered for sum_ in total))
        if not self._samples:
            self._above_since = self._slow = None
        return None


LEAST_WAITING_RATIO: Final = 0.25
"""Smallest share of the time in which a task of a waiting pod has no CPU; the same as of throttled periods."""
STALE_WAIT_SECONDS: Final = 150.0
"""Time after which a counter that stays as it is was read again, at 60 ticks a reading, and means no waiting."""


class CpuWaits:
    """Prod pods that wait for a CPU while the node as a whole has idle CPU, from their counters of waited seconds.

    They are read once a minute. The kernel counts the time in which tasks of a pod waited for a CPU on cgroup v2 only.
    A pod whose own limit is too small waits as well: limits of Mid pods then fall to what is allowed, and no further.
    """

    def __init__(self) -> None:
        self._changed: dict[str, tuple[float, float]] = {}
        """UID -> time at which its counter was seen to change, and the counter."""
        self._ratios: dict[str, float] = {}

    def waiting(self, now_seconds: float, waited_seconds: Mapping[str, float]) -> frozenset[str]:
        """Return the pods that wait for a CPU, by UID. Times are of a monotonic clock."""
        for gone in self._changed.keys() - waited_seconds.keys():
            del self._changed[gone]
            self._ratios.pop(gone, None)
        for uid, waited in waited_seconds.items():
            at, before = self._changed.get(uid, (now_seconds, waited))
            if waited == before:
                if now_seconds - at >= STALE_WAIT_SECONDS:
                    self._ratios.pop(uid, None)
                self._changed.setdefault(uid, (now_seconds, waited))
                continue
            self._changed[uid] = now_seconds, waited
            if waited > before and now_seconds > at:  # a counter below its last value is that of another group
                self._ratios[uid] = (waited - before) / (now_seconds - at)
            else:
                self._ratios.pop(uid, None)
        return frozenset(uid for uid, ratio in self._ratios.items() if ratio >= LEAST_WAITING_RATIO)
