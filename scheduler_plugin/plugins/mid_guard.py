"""Reject a node for a Mid pod if the newest report has no room left for the pod.

    left = Calculated by the newest NodeMetric - Mid requests of the pods assigned there

Calculated is the formula of `api_types.node_metric.mid_resource` without the floor: the floor protects running pods
and admits no new one, so Mid drains to Calculated as pods end, whatever the backlog. Nothing is left where the manager
withdrew Mid (colocation off, or so the status annotation) and where the sample is older than `degradeTimeMinutes`. A
withdrawal for lack of reports ends with the first report, as in the manager: pods that the node's new resources requeue
must not be rejected. Where the newest report cannot be calculated, the value of the annotation counts. MidGuard accepts
a node with neither an annotation nor a policy of this project's manager (upstream's manager), and in shadow.

Nothing is admitted where the manager has closed the node (its annotations state why: a Mid pod was evicted there and it
was not calm since, it is about to be removed, only Mid pods keep it), or all nodes (midEmergency: `state.mid_watches`).

A namespace that holds its quota of Mid resources (`state.mid_quotas`) gets no more on any node. That and an emergency
also reject a node that only kube-scheduler knows yet.

The node's status lags behind the prediction that it is calculated from; between two updates kube-scheduler would fill
resources that no longer exist. The check of the published resources is left to NodeResourcesFit (decision 0003).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pydantic

from api_types import names
from api_types.colocation import node_reservation, problem
from api_types.colocation.problem import Problem
from api_types.kubernetes import pods, quantities, times
from api_types.kubernetes.priority_and_qos import PriorityClass, class_of_priority
from api_types.mid_pods import quota
from api_types.mid_pods.quota import MidQuota
from api_types.node_metric import mid_eviction, mid_report, mid_status
from api_types.node_metric.mid_report import MidPolicy, Requests
from api_types.node_metric.mid_status import MidStatus
from scheduler_plugin.framework.interface import Pending, PluginArgs, PluginInputs, ReasonCodes
from scheduler_plugin.state import mid_quotas
from scheduler_plugin.state.mid_quotas import NamespaceUse
from scheduler_plugin.state.node_columns import Bools, Columns, Floats, Ints, NodeColumns, NodeEntry, Rows
from scheduler_plugin.state.node_report import NodeReport
from scheduler_plugin.state.pod_info import PodInfo
from scheduler_plugin.state.vectors import LARGEST_SUM


class MidGuardArgs(PluginArgs):
    """Arguments as an administrator writes them."""

    model_config = pydantic.ConfigDict(strict=True)

    default_quota: dict[str, Any] | None = None
    """The most Mid resources that the pods of one namespace may hold, for each namespace without the annotation
    `koordinator.sh/mid-quota`: {cpu: "20", memory: 64Gi}. An absent resource is not limited. Default: none is."""
    namespace_quotas: bool = True
    """Whether the annotation of Namespaces counts. It needs the permission to list and watch Namespaces; without it no
    new Mid pod is accepted."""

    def quota(self) -> MidQuota:
        """Return the default quota. Raises MalformedQuota."""
        return quota.from_document(self.default_quota or {})

    def problems(self) -> list[Problem]:
        """Return the problems of the arguments."""
        try:
            self.quota()
        except quota.MalformedQuota:
            return [problem.problem(("defaultQuota",), self.default_quota, quota.WANTED)]
        return []


REASON: Final = "node(s) didn't have enough Mid resources left by the newest report"
REASON_CLOSED: Final = "node(s) accept no new Mid pods after an eviction"
REASON_LEAVING: Final = "node(s) accept no new Mid pods because they are or may be about to be removed"
REASON_MID_ONLY: Final = "node(s) accept no new Mid pods because they are emptied for the autoscaler"
REASON_FROZEN: Final = "node(s) accept no new Mid pods while midEmergency is freeze or drain"
REASON_QUOTA: Final = "node(s) accept no more Mid pods of a namespace than its mid-quota"
REASON_QUOTA_UNKNOWN: Final = "node(s) accept no new Mid pods until the list of namespaces has their mid-quotas"
_TOO_LITTLE, _CLOSED, _FROZEN, _OVER_QUOTA, _QUOTA_UNKNOWN, _LEAVING, _MID_ONLY = 1, 2, 3, 4, 5, 6, 7
_CODE_OF_CLOSED: Final = {
    "Leaving": _LEAVING, "Cordoned": _LEAVING, "ScaleDownCandidate": _LEAVING, "MidOnly": _MID_ONLY,
    "Frozen": _FROZEN,
}  # fmt: skip
"""Codes of the status annotation for a closed node; all others are those of an eviction."""

_UNBOUNDED: Final = (2**62, 2**62)
"""Mid of a node that is not guarded."""
_NOTHING: Final = (0, 0)
_UNITS: Final = (1000, 2**30)
_WHAT: Final = ("cores of Mid", "GiB of Mid memory")
_NO_REQUESTS: Final = Requests({}, {})


class MidGuard(Columns):
    """The filter plugin."""

    name = "MidGuard"
    reasons: Sequence[str] = (
        REASON, REASON_CLOSED, REASON_FROZEN, REASON_QUOTA, REASON_QUOTA_UNKNOWN, REASON_LEAVING, REASON_MID_ONLY,
    )  # fmt: skip
    resolvable: Sequence[str] = (REASON, REASON_QUOTA)

    def __init__(self) -> None:
        self._left: Ints = np.zeros((2, 0), dtype=np.int64)
        """mid-cpu in milli-cores and mid-memory in bytes that are left on each node; negative if overcommitted."""
        self._valid_until: Floats = np.zeros(0, dtype=np.float64)
        """Time after which nothing is left, because the sample is too old; infinite for a node that is not guarded."""
        self._closed: ReasonCodes = np.zeros(0, dtype=np.int16)
        """Code of the reason for which each node is closed; 0 for one that is open."""
        self._admitted: dict[int, _AdmittedMid] = {}
        """By row; calculated again only when the node's objects change, not with every pod."""

    def write(self, entry: NodeEntry) -> None:
        """Update one node's row."""
        admitted = self._admitted.get(entry.row)
        if admitted is None or admitted.node is not entry.node or admitted.report is not entry.load.report:
            admitted = self._admitted[entry.row] = _AdmittedMid(entry, admitted)
        assigned = (entry.load.mid_cpu_millis, entry.load.mid_memory_bytes)
        self._left[:, entry.row] = [
            max(mid - taken, -LARGEST_SUM) for mid, taken in zip(admitted.mid, assigned, strict=True)
        ]
        self._valid_until[entry.row] = admitted.valid_until
        self._closed[entry.row] = admitted.closed

    def reject(
        self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float, pending: Pending | None = None
    ) -> ReasonCodes | None:
        """Reject candidates with too little left, and closed ones also for pods of class Mid that request none.

        The manager evicts those as well, and they would come back.
        """
        if not _is_guarded(pod):
            return None
        if everywhere := _code_everywhere(pod, vectors):
            return np.full(len(rows), everywhere, dtype=np.int16)
        if not _requests_mid(pod):
            return self._closed[rows]
        requests = np.array([[pod.mid_cpu_millis], [pod.mid_memory_bytes]], dtype=np.int64)
        free = self._left[:, rows]
        if pending is not None and pending.mid is not None:
            free = free - pending.mid
        is_too_old = now > self._valid_until[rows]
        too_little = (requests > 0) & (is_too_old | (requests > free))
        of_node = np.where(np.any(too_little, axis=0), _TOO_LITTLE, self._closed[rows])
        return np.where(_exceeds_quota(pod, vectors, pending), _OVER_QUOTA, of_node).astype(np.int16)

    def reject_unknown(self, pod: PodInfo, vectors: NodeColumns) -> int:
        """Reject a node that only kube-scheduler knows yet in an emergency, and for the quota of the namespace."""
        if not _is_guarded(pod):
            return 0
        return _code_everywhere(pod, vectors) or _OVER_QUOTA * bool(_exceeds_quota(pod, vectors, None)[0])

    def details(self, pod: PodInfo, vectors: NodeColumns) -> Mapping[int, str]:
        """State what the namespace of a Mid pod holds, where it would hold more than its quota."""
        if not _requests_mid(pod):
            return {}
        namespace = mid_quotas.pod_namespace(pod.key)
        text = _quota_text(pod, namespace, vectors.mid_quotas.namespace_use(namespace))
        return {_OVER_QUOTA - 1: text} if text else {}

    def explain(self, pod: PodInfo, rows: Rows) -> PluginInputs:
        """Return the Mid left on each candidate and whether it is closed; no columns for a pod that requests no Mid."""
        if not _requests_mid(pod):
            return PluginInputs(names.MID_RESOURCES, {})
        columns: dict[str, Ints | Floats | Bools] = {
            "midLeft": self._left.take(rows, axis=1),
            "midClosed": self._closed.take(rows) != 0,
        }
        return PluginInputs(names.MID_RESOURCES, columns)


def _requests_mid(pod: PodInfo) -> bool:
    return bool(pod.mid_cpu_millis or pod.mid_memory_bytes)


def _is_guarded(pod: PodInfo) -> bool:
    return _requests_mid(pod) or class_of_priority(pod.priority) is PriorityClass.MID


def _code_everywhere(pod: PodInfo, vectors: NodeColumns) -> int:
    """Return the code of a reason that rejects every node for a guarded pod, whatever is known of it; 0 for none."""
    if vectors.frozen:
        return _FROZEN
    return _QUOTA_UNKNOWN if _requests_mid(pod) and not vectors.mid_quotas.is_known else 0


def _exceeds_quota(pod: PodInfo, vectors: NodeColumns, pending: Pending | None) -> Bools:
    """Return whether the namespace would hold more than its quota; shape (candidates,), or (1,) for all alike."""
    use = vectors.mid_quotas.namespace_use(mid_quotas.pod_namespace(pod.key))
    exceeds: Bools = np.zeros(1, dtype=np.bool_)
    for place, (used, most, request) in enumerate(zip(use.held, use.quota, _wanted(pod), strict=True)):
        if most is not None and request > 0:
            more = 0 if pending is None or pending.mid_of_namespace is None else pending.mid_of_namespace[place]
            fits_64_bits = min(used, _UNBOUNDED[place])  # a thousand pods of the largest amount do not
            exceeds = exceeds | np.atleast_1d(fits_64_bits + more + request > most)
    return exceeds


def _quota_text(pod: PodInfo, namespace: str, use: NamespaceUse) -> str:
    """Return the numbers of the first resource that the quota has too little of; empty if there is enough."""
    if use.problem:
        return f"annotation {names.ANNOTATION_MID_QUOTA} of namespace {namespace} is malformed: {use.problem}"
    for unit, what, used, most, request in zip(_UNITS, _WHAT, use.held, use.quota, _wanted(pod), strict=True):
        if most is not None and request > 0 and used + request > most:
            more = f", the pod requests {request / unit:g}" if used < most else ""
            return f"namespace {namespace} holds {used / unit:g} of {most / unit:g} {what}{more}"
    return ""


def _wanted(pod: PodInfo) -> tuple[int, int]:
    return pod.mid_cpu_millis, pod.mid_memory_bytes


class _Written(NamedTuple):
    """What the guard reads of a status annotation."""

    is_withdrawn: bool
    closed: int
    ends_with_report_after: float
    """A withdrawal for lack of reports ends with one of a later sample; infinite for other withdrawals."""
    calculated: tuple[int, int] | None
    """None where the manager did not calculate both."""


class _AdmittedMid:
    """Total mid-cpu and mid-memory that pods may request on a node, and the objects it was calculated from."""

    __slots__ = ("annotation", "closed", "mid", "node", "report", "valid_until", "written")

    def __init__(self, entry: NodeEntry, before: _AdmittedMid | None) -> None:
        self.node = entry.node
        self.report = entry.load.report
        self.annotation = mid_status.text_of(entry.node) if entry.node else None
        self.written: _Written | None
        if before is not None and before.annotation == self.annotation:
            self.written = before.written
        else:
            self.written = _written(mid_status.decode(self.annotation))
        self.closed = _closed_code(entry.node, self.written)
        self.mid = self._total(entry)
        self.valid_until = math.inf
        if self.mid != _UNBOUNDED and self.report is not None and self.report.mid_policy is not None:
            sampled = self.report.update_time
            self.valid_until = -math.inf if sampled is None else sampled + self.report.mid_policy.degrade_seconds

    def _total(self, entry: NodeEntry) -> tuple[int, int]:
        policy = self.report.mid_policy if self.report else None
        is_withdrawn = self.written is not None and self.written.is_withdrawn
        if self.report is None or entry.node is None or policy is None:
            return _NOTHING if is_withdrawn else _UNBOUNDED
        if not policy.enabled:
            return _NOTHING
        if not policy.publishes and self.written is None:
            return _UNBOUNDED
        calculated = calculated_mid(self.report, policy, entry.node, entry.allocatable)
        if self.written is not None and is_withdrawn:
            is_over = (self.report.update_time or 0.0) > self.written.ends_with_report_after
            return (calculated if is_over else None) or _NOTHING
        return calculated or (self.written and self.written.calculated) or _UNBOUNDED


def _written(status: MidStatus | None) -> _Written | None:
    if status is None:
        return None
    values = [status.resources[mid].calculated if mid in status.resources else None for mid in names.MID_RESOURCES]
    calculated = None if values[0] is None or values[1] is None else _bounded(values[0], values[1])
    written_at = times.epoch_seconds_or_none(status.time)
    ends_after = math.inf if status.reason not in mid_status.WITHOUT_REPORTS or written_at is None else written_at
    closed = _CODE_OF_CLOSED.get(status.closed, _CLOSED) if status.closed else 0
    return _Written(status.status == mid_status.WITHDRAWN, closed, ends_after, calculated)


def _closed_code(node: pods.Node | None, written: _Written | None) -> int:
    """Return the code of the reason for which a node is closed, by the newer of its two annotations."""
    if written is not None and written.closed:
        return written.closed
    record = mid_eviction.eviction_record(node) if node is not None else None
    if record is None:
        return 0
    return _MID_ONLY if record.trigger == mid_eviction.MID_ONLY else _CLOSED


def _bounded(mid_cpu: int, mid_memory: int) -> tuple[int, int]:
    return min(max(mid_cpu, 0), _UNBOUNDED[0]), min(max(mid_memory, 0), _UNBOUNDED[1])


def calculated_mid(
    report: NodeReport, policy: MidPolicy, node: pods.Node, allocatable: pods.Resources
) -> tuple[int, int] | None:
    """Calculate mid-cpu and mid-memory from the newest report; None if it lacks inputs of the formula.

    `allocatable` is the one that LoadAware uses; the amounts of the reservation annotation are subtracted here.
    """
    try:
        usable = mid_report.usable_report(report.mid_report, policy)
        is_static = policy.static_percent is not None
        if not is_static and not usable.has_prediction():
            return None
        if usable.requests is None and policy.unallocated_percent and not is_static:
            return None
        if names.ANNOTATION_NODE_RESERVATION in pods.annotation_map(node.metadata):
            allocatable = node_reservation.allocatable(node).resources
        capacity = node_reservation.capacity(node)
        bound = usable.requests or _NO_REQUESTS
        terms = mid_report.terms(usable, policy, allocatable, capacity, bound)
    except (mid_report.BadReport, quantities.InvalidQuantity):
        return None
    mid_cpu, mid_memory = (terms[native].calculated or 0 for native in (names.CPU, names.MEMORY))
    return _bounded(mid_cpu, mid_memory)
