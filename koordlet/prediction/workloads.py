"""History of workloads, lent to their pods that have too little of their own.

A pod is **borrowed** if it is cold, and its workload is known from at least 24 hours of other pods of about the same
request. In its first 10 minutes it is charged what its workload uses at most while it starts, and then it is predicted
like a warm pod, with at least the mean and the standard deviation of its workload. It counts at most as its request,
or as its usage where that is larger: never more than without a history.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np

from api_types.node_metric.workloads import (
    MOST_WORKLOADS,
    AddedMemory,
    AddedUsage,
    AddedWorkload,
    WorkloadHistory,
    WorkloadUsage,
)
from koordlet.prediction.allocation import ChargedPod, Owner
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.prediction.usage_models import SeriesStatistics
from koordlet.samples import RESOURCES, Resource

START_SECONDS: Final = 600.0
"""Recorded time of a pod in which its usage is that of its start, and not like later."""
LEAST_POD_HOURS: Final = 24.0
LONGEST_AGE_SECONDS: Final = 3 * 86_400.0
_LARGEST_RATIO: Final = 2.0
"""Of the requests of a pod and of its workload; beyond it the pod is another one than those before."""
_DEVIATIONS: Final = 3.0
"""From the mean to the largest usage of three hours."""


_STATEMENT_SECONDS: Final = 3600.0


def usage_of(entry: WorkloadHistory, resource: Resource) -> WorkloadUsage:
    """Return what is known of one resource, in cores or bytes."""
    return entry.cpu if resource is Resource.CPU else entry.memory


def high(usage: WorkloadUsage) -> float:
    """Return what a pod hardly exceeds in a few hours."""
    return usage.mean + _DEVIATIONS * usage.stdev


def lends_to(entry: WorkloadHistory, pod: ChargedPod, now_seconds: float) -> bool:
    """Return whether an entry is enough, and new enough, and learned with about the pod's requests."""
    is_new = now_seconds - entry.update_time.timestamp() < LONGEST_AGE_SECONDS
    requests = [(usage_of(entry, resource).request, pod.request(resource)) for resource in RESOURCES]
    is_alike = all(max(pair) <= _LARGEST_RATIO * min(pair) for pair in requests)
    return entry.pod_hours >= LEAST_POD_HOURS and is_new and is_alike


class Division(NamedTuple):
    """The Prod pods of a node, by how they are predicted."""

    predicted: Sequence[ChargedPod]
    """The warm pods, then the borrowed ones that have started."""
    lent: Mapping[str, WorkloadHistory]
    """History of the latter, by UID."""
    starting: Sequence[tuple[ChargedPod, WorkloadHistory]]
    """Borrowed pods in their first minutes."""
    cold: Sequence[ChargedPod]
    """All others: charged their requests."""

    @property
    def new(self) -> list[ChargedPod]:
        """Return the pods with too little history of their own."""
        return (
            [pod for pod in self.predicted if pod.uid in self.lent] + [pod for pod, _ in self.starting] + [*self.cold]
        )

    @property
    def warm_pods(self) -> int:
        """Return the number of pods that are predicted from their own history."""
        return len(self.predicted) - len(self.lent)


@dataclass(frozen=True, slots=True)
class LentStatistics(SeriesStatistics):
    """Statistics of series of which some have at least those of their workload; NaN for the others."""

    least_mean: FloatArray
    least_stdev: FloatArray
    least_high: FloatArray

    @classmethod
    def with_least(cls, series: SeriesStatistics, pods: Sequence[ChargedPod], resource: Resource, lent: Lent) -> Self:
        """Raise the statistics of the series of pods to what is lent to them."""
        usage = [usage_of(entry, resource) if (entry := lent.get(pod.uid)) else None for pod in pods]
        least = [
            (min(one.mean, request), one.stdev, min(high(one), request)) if one else (np.nan,) * 3
            for one, request in zip(usage, (pod.request(resource) for pod in pods), strict=True)
        ]
        return cls(series.bank, series.rows, *np.array(least, float).reshape(-1, 3).T)

    def mean(self) -> FloatArray:
        """Return the mean of each series."""
        return np.fmax(SeriesStatistics.mean(self), self.least_mean)

    def stdev(self) -> FloatArray:
        """Return the standard deviation of each series."""
        return np.fmax(SeriesStatistics.stdev(self), self.least_stdev)

    def percentiles(self, percents: Sequence[float]) -> FloatArray:
        """Return percentiles of each series; of a workload none is known, so what it hardly exceeds."""
        return np.fmax(SeriesStatistics.percentiles(self, percents), self.least_high[:, np.newaxis])


Lent = Mapping[str, WorkloadHistory]


def charged_at_start(
    starting: Sequence[tuple[ChargedPod, WorkloadHistory]], resource: Resource, usage_now: FloatArray
) -> float:
    """Return what pods that start are charged: their request where the start of their workload is not known."""
    charges: list[float] = []
    for (pod, entry), used in zip(starting, np.nan_to_num(usage_now).tolist(), strict=True):
        lent, request = usage_of(entry, resource), pod.request(resource)
        charges.append(max(min(max(lent.start_peak, high(lent)), request) if lent.start_peak else request, used))
    return math.fsum(charges)


class AddedHours:
    """Usage that the pods of one workload add, as weighted mean and sum of squared deviations."""

    def __init__(self) -> None:
        self.hours = 0.0
        self.mean = dict.fromkeys(Resource, 0.0)
        self.m2 = dict.fromkeys(Resource, 0.0)
        self.pods: dict[str, ChargedPod] = {}

    def add(self, pod: ChargedPod, hours: float, usage: Mapping[Resource, float]) -> None:
        """Add the newest usage of one pod, over so many hours."""
        self.hours += hours
        self.pods[pod.uid] = pod
        for resource, used in usage.items():
            deviation = used - self.mean[resource]
            self.mean[resource] += deviation * hours / self.hours
            self.m2[resource] += hours * deviation * (used - self.mean[resource])


class NodeWorkloads:
    """What the warm pods of this node used since the last hourly statement, by their controllers."""

    def __init__(self) -> None:
        self.stated_seconds = math.nan
        """Time of the newest statement, or of the first sample."""
        self.stated: Sequence[AddedWorkload] = ()
        self._seconds = math.nan
        self._added: dict[Owner, AddedHours] = {}
        self._start_peaks: dict[str, dict[Resource, float]] = {}
        """Largest usage of each pod in its first minutes, as long as it is bound."""

    def is_due(self, now_seconds: float) -> bool:
        """Return whether the next statement is due."""
        return now_seconds - self.stated_seconds >= _STATEMENT_SECONDS

    def add(
        self,
        now_seconds: float,
        pods: Sequence[tuple[ChargedPod, bool]],
        usage: Mapping[Resource, FloatArray],
        *,
        longest_gap_seconds: float,
    ) -> None:
        """Add the newest usage of pods; each is warm, or else in its first minutes."""
        if math.isnan(self.stated_seconds):
            self.stated_seconds = now_seconds
        passed = now_seconds - self._seconds
        hours = passed / 3600 if 0 < passed <= longest_gap_seconds else 0.0  # false for NaN
        self._seconds = now_seconds
        columns = zip(*(usage[resource].tolist() for resource in RESOURCES), strict=True)
        for (pod, is_warm), used in zip(pods, columns, strict=True):
            if not all(map(math.isfinite, used)):
                continue
            if not is_warm:
                highest = self._start_peaks.get(pod.uid, {})
                self._start_peaks[pod.uid] = {
                    resource: max(value, highest.get(resource, 0.0))
                    for resource, value in zip(RESOURCES, used, strict=True)
                }
            elif hours and pod.owner is not None:
                added = self._added.setdefault(pod.owner, AddedHours())
                added.add(pod, hours, dict(zip(RESOURCES, used, strict=True)))

    def state(self, now_seconds: float, bound: Container[str], rises: Mapping[str, float]) -> None:
        """Make a statement, the largest weight first. `rises` are the largest of memory of each pod."""
        self.stated_seconds = now_seconds
        largest = sorted(self._added.items(), key=lambda entry: -entry[1].hours)[:MOST_WORKLOADS]
        self.stated = [self._wire(owner, added, rises) for owner, added in largest]
        self._added = {}
        self._start_peaks = {uid: peaks for uid, peaks in self._start_peaks.items() if uid in bound}

    def _wire(self, owner: Owner, added: AddedHours, rises: Mapping[str, float]) -> AddedWorkload:
        starts = [peaks for uid in added.pods if (peaks := self._start_peaks.get(uid))]

        def rounded(value: float) -> float:
            return float(f"{value:.6g}")

        def usage(resource: Resource) -> AddedUsage:
            return AddedUsage(
                mean=rounded(added.mean[resource]),
                m2=rounded(added.m2[resource]),
                start_peak=rounded(max((peaks[resource] for peaks in starts), default=0.0)),
                request=rounded(max(pod.request(resource) for pod in added.pods.values())),
            )

        return AddedWorkload(
            **owner._asdict(),
            pod_hours=round(added.hours, 4),
            cpu=usage(Resource.CPU),
            memory=AddedMemory(
                **dict(usage(Resource.MEMORY)), rise=math.ceil(max(rises.get(uid, 0.0) for uid in added.pods))
            ),
        )
