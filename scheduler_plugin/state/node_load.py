"""Load of one node: its newest report, and the pods assigned there that the report does not yet show in full.

Sums are updated as pods come and go, so that reading a node costs the same for any number of pods. For one pod with
reported usage u (or none) and estimate e, as Koordinator's LoadAware plugin counts it:

    prod_usage      += u               Prod pod that the report lists as Prod
    node_delta      += max(0, e - u)   u missing, or the pod is younger than one report, or its estimate is forced
    node_estimated  += e
    prod_delta      += max(0, e - u)   Prod pod, under the same conditions; all of e where the report does not list
                                       it as Prod

node_estimated does not depend on the report. Because u is inside the node's usage, usage + max(0, e - u) replaces the
pod's usage by max(e, u). A new report recomputes every other sum, so that removals always undo exactly the additions.
Sums have no limit, because any number of pods may name a node and request absurd amounts; what is read of a sum is
within -LARGEST and LARGEST.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from scheduler_plugin.state.node_report import NodeReport
from scheduler_plugin.state.pod_info import UNKNOWN_MID, AssignedPod
from scheduler_plugin.state.vectors import LARGEST, Vector


class NodeLoad:
    """Newest report of a node, its assigned pods, and their sums."""

    __slots__ = (
        "mid_cpu_millis", "mid_memory_bytes", "node_delta", "node_estimated", "pods", "pods_version", "prod_delta",
        "prod_usage", "report", "system_in_prod", "update_time", "zero",
    )  # fmt: skip

    def __init__(self, resource_count: int, *, system_in_prod: bool) -> None:
        self.zero: Vector = (0,) * resource_count
        self.system_in_prod = system_in_prod
        self.report: NodeReport | None = None
        self.update_time: float | None = None
        self.pods: dict[str, AssignedPod] = {}
        """By pod key."""
        self.pods_version = 0
        """Number of changes of `pods`."""
        self.mid_cpu_millis = 0
        self.mid_memory_bytes = 0
        self.node_estimated = list(self.zero)
        self._reset_sums()

    def set_report(self, report: NodeReport) -> None:
        """Replace the report. One without a time keeps the time of the previous one, while the entry is not empty."""
        self.report = report
        if report.update_time is not None:
            self.update_time = report.update_time
        self._reset_sums()
        measured: list[Vector] = []
        for pod in self.pods.values():
            reported = report.pods.find(pod.key)
            if reported and reported[-1] and pod.is_prod and not self._is_estimated_though_reported(pod, report):
                measured.append(reported)  # the case of most pods: reported usage alone, without the estimate
            else:
                self._count(pod, report, 1)
        self.prod_usage[:] = [sum(amounts) for amounts in zip(self.prod_usage, *measured, strict=False)]

    def drop_report(self) -> None:
        """Drop the report; the pods stay, and count again with the next one."""
        self.report = None
        self._reset_sums()
        self._reset_time_if_empty()

    def assign(self, pod: AssignedPod) -> None:
        """Count a pod, in place of the one under its key."""
        self.remove(pod.key)
        self.pods[pod.key] = pod
        self.pods_version += 1
        self._add(pod, 1)

    def remove(self, key: str) -> None:
        """Remove a pod from the sums, if it counts."""
        pod = self.pods.pop(key, None)
        if pod is not None:
            self.pods_version += 1
            self._add(pod, -1)
            self._reset_time_if_empty()

    def alone(self, pod: AssignedPod) -> Self:
        """Return a NodeLoad with this report and only `pod`; the debug page shows the pod's contribution with it."""
        result = type(self)(len(self.zero), system_in_prod=self.system_in_prod)
        result.update_time = self.update_time
        result.assign(pod)
        if self.report is not None:
            result.set_report(self.report)
        return result

    def is_empty(self) -> bool:
        """Return whether there is neither a report nor a pod."""
        return self.report is None and not self.pods

    def plain(self) -> Vector:
        """Return the usage: reported + node_delta; the estimates alone if no usage is reported."""
        if self.report is None or self.report.node_usage is None:
            return _sum(self.node_estimated, self.zero)
        return _sum(self.report.node_usage, self.node_delta)

    def predicted(self) -> Vector | None:
        """Return the predicted peak + node_delta; None without a prediction."""
        predicted = self.report.predicted_usage if self.report else None
        return None if predicted is None else _sum(predicted, self.node_delta)

    def prod(self) -> Vector:
        """Return the usage of the Prod pods."""
        return _sum(self.prod_usage, self.prod_delta)

    def aggregated(self, statistic: str, window_nanos: int) -> Vector:
        """Return a statistic of usage over a window (0: the longest); the newest usage if it is not reported."""
        vector = self.report.aggregated.get((statistic, window_nanos)) if self.report else None
        return self.plain() if vector is None else _sum(vector, self.node_delta)

    def _reset_time_if_empty(self) -> None:
        if self.is_empty():
            self.update_time = None

    def _reset_sums(self) -> None:
        report = self.report
        self.prod_usage = list(report.system_usage if report is not None and self.system_in_prod else self.zero)
        self.node_delta = list(self.zero)
        self.prod_delta = list(self.zero)

    def _add(self, pod: AssignedPod, sign: int) -> None:
        if UNKNOWN_MID not in (pod.mid_cpu_millis, pod.mid_memory_bytes):
            self.mid_cpu_millis += sign * pod.mid_cpu_millis
            self.mid_memory_bytes += sign * pod.mid_memory_bytes
        _add(self.node_estimated, pod.estimate or self.zero, sign)
        if self.report is not None:
            self._count(pod, self.report, sign)

    def _count(self, pod: AssignedPod, report: NodeReport, sign: int) -> None:
        """Add to (or subtract from) the sums that depend on the report; see the table in the module docstring."""
        reported = report.pods.find(pod.key)
        is_reported_prod = pod.is_prod and reported is not None and reported[-1] == 1
        if is_reported_prod and reported is not None:
            _add(self.prod_usage, reported[:-1], sign)
        estimate = pod.estimate
        if estimate is None:
            return
        is_estimated = reported is None or self._is_estimated_though_reported(pod, report)
        if is_reported_prod and not is_estimated:
            return  # the case of most pods
        usage = None if reported is None else reported[:-1]
        if is_estimated:
            _add(self.node_delta, _excess(estimate, usage), sign)
        if pod.is_prod:
            _add(self.prod_delta, _excess(estimate, usage if is_reported_prod else None), sign)

    def _is_estimated_though_reported(self, pod: AssignedPod, report: NodeReport) -> bool:
        if self.update_time is None or self.update_time - report.interval_seconds < pod.timestamp:
            return True
        return pod.forced_until is not None and pod.forced_until > self.update_time


def _sum(first: Iterable[int], second: Iterable[int]) -> Vector:
    return tuple([max(-LARGEST, min(a + b, LARGEST)) for a, b in zip(first, second, strict=True)])


def _add(total: list[int], more: Vector, sign: int) -> None:
    for index, value in enumerate(more):
        total[index] += sign * value


def _excess(estimate: Vector, usage: Vector | None) -> Vector:
    if usage is None:
        return tuple([max(0, value) for value in estimate])
    return tuple([max(0, value - used) for value, used in zip(estimate, usage, strict=True)])
