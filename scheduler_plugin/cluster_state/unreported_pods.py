"""Load of one node: its newest report, and the pods assigned there that the report does not yet show in full.

Sums are kept while pods come and go, so that reading a node costs the same however many pods it runs. For one pod
with reported usage u (or none), estimate e (koordinator-loadaware section 8):

    prod_usage      += u               Prod pod that the report lists as Prod
    node_delta      += max(0, e - u)   u missing, or the pod is younger than one report, or its estimate is forced
    node_estimated  += e
    prod_delta      += max(0, e - u)   Prod pod, under the same conditions; all of e where the report does not list
                                       it as Prod

Because u is inside the node's usage, usage + max(0, e - u) replaces the pod's usage by max(e, u). A new report
rebuilds every sum, so that removals always undo exactly what was added.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from scheduler_plugin.cluster_state.estimation import Vector
from scheduler_plugin.cluster_state.node_metric_intake import LoadReport
from scheduler_plugin.cluster_state.pod_facts import AssignedPod


class Excess(NamedTuple):
    """By how much one pod's estimate exceeds what is reported of it, for the node and for its Prod pods."""

    node: Vector
    prod: Vector


class NodeLoad:
    """Report, assigned pods and their sums."""

    __slots__ = (
        "mid_cpu_millis",
        "mid_memory_bytes",
        "node_delta",
        "node_estimated",
        "pods",
        "prod_delta",
        "prod_usage",
        "report",
        "system_in_prod",
        "update_time",
        "zero",
    )

    def __init__(self, resource_count: int, *, system_in_prod: bool) -> None:
        self.zero: Vector = (0,) * resource_count
        self.system_in_prod = system_in_prod
        self.report: LoadReport | None = None
        self.update_time: float | None = None
        self.pods: dict[str, AssignedPod] = {}
        self.mid_cpu_millis = 0
        self.mid_memory_bytes = 0
        self._reset_sums()

    def set_report(self, report: LoadReport) -> None:
        """Take a newer report; one without a time keeps the time of the one before."""
        self.report = report
        if report.update_time is not None:
            self.update_time = report.update_time
        self._reset_sums()
        for pod in self.pods.values():
            self._count(pod, report, 1)

    def drop_report(self) -> None:
        """Forget the report; the pods stay, and count again with the next one."""
        self.report = None
        self._reset_sums()

    def assign(self, pod: AssignedPod) -> None:
        """Count a pod, in place of what was known under its UID."""
        self.remove(pod.facts.uid)
        self.pods[pod.facts.uid] = pod
        self.mid_cpu_millis += pod.facts.mid_cpu_millis
        self.mid_memory_bytes += pod.facts.mid_memory_bytes
        if self.report is not None:
            self._count(pod, self.report, 1)

    def remove(self, uid: str) -> AssignedPod | None:
        """Stop counting a pod; None where it did not count."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.mid_cpu_millis -= pod.facts.mid_cpu_millis
            self.mid_memory_bytes -= pod.facts.mid_memory_bytes
            if self.report is not None:
                self._count(pod, self.report, -1)
        return pod

    def is_empty(self) -> bool:
        """Whether there is nothing left to know."""
        return self.report is None and not self.pods

    def plain(self) -> Vector:
        """Usage now: reported + what the report does not show; estimates alone where no usage is reported."""
        if self.report is None or self.report.node_usage is None:
            return tuple(self.node_estimated)
        return _sum(self.report.node_usage, self.node_delta)

    def prod(self) -> Vector:
        """Usage of the Prod pods."""
        return _sum(self.prod_usage, self.prod_delta)

    def aggregated(self, statistic: str, window_nanos: int) -> Vector:
        """Statistic of usage over a window (0: the longest); a window not reported reads as the estimates alone."""
        vector = self.report.aggregated.get((statistic, window_nanos)) if self.report else None
        if vector is not None:
            return _sum(vector, self.node_delta)
        return self.plain() if window_nanos == 0 else tuple(self.node_estimated)

    def is_estimated(self, pod: AssignedPod, report: LoadReport) -> bool:
        """Whether a pod's estimate counts in the deltas."""
        if pod.estimate is None:
            return False
        if self.update_time is None or pod.facts.key not in report.pod_usage:
            return True
        if self.update_time - report.interval_seconds < pod.timestamp:
            return True
        return pod.forced_until is not None and pod.forced_until > self.update_time

    def excess(self, pod: AssignedPod, report: LoadReport) -> Excess:
        """What one pod adds to the deltas."""
        estimate = pod.estimate
        if estimate is None:
            return Excess(self.zero, self.zero)
        usage = report.pod_usage.get(pod.facts.key)
        active = pod.facts.is_prod and pod.facts.key in report.prod_pods
        counts = self.is_estimated(pod, report)
        return Excess(
            node=_excess(estimate, usage) if counts else self.zero,
            prod=_excess(estimate, usage if active else None)
            if pod.facts.is_prod and (counts or not active)
            else self.zero,
        )

    def _reset_sums(self) -> None:
        with_system = self.report is not None and self.system_in_prod
        self.prod_usage = list(self.report.system_usage) if with_system and self.report else list(self.zero)
        self.node_delta = list(self.zero)
        self.prod_delta = list(self.zero)
        self.node_estimated = list(self.zero)

    def _count(self, pod: AssignedPod, report: LoadReport, sign: int) -> None:
        facts = pod.facts
        if facts.is_prod and facts.key in report.prod_pods:
            _add(self.prod_usage, report.pod_usage[facts.key], sign)
        if pod.estimate is not None:
            excess = self.excess(pod, report)
            _add(self.node_delta, excess.node, sign)
            _add(self.prod_delta, excess.prod, sign)
            _add(self.node_estimated, pod.estimate, sign)


def _sum(first: Iterable[int], second: Iterable[int]) -> Vector:
    return tuple([a + b for a, b in zip(first, second, strict=True)])


def _add(total: list[int], more: Vector, sign: int) -> None:
    for index, value in enumerate(more):
        total[index] += sign * value


def _excess(estimate: Vector, usage: Vector | None) -> Vector:
    if usage is None:
        return tuple([max(0, value) for value in estimate])
    return tuple([max(0, value - used) for value, used in zip(estimate, usage, strict=True)])
