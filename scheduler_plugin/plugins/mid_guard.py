"""Reject a node for a Mid pod if the newest prediction has no room left for the pod: MidGuard.

    left = Mid by the newest NodeMetric - Mid requests of the pods assigned there

The node's status lags behind the prediction that it is calculated from; between two updates kube-scheduler would fill
resources that no longer exist. The formula is `api_types.node_metric.mid_resource`, as in the manager. If the
NodeMetric does not contain its inputs (upstream's agent or manager, colocation off), MidGuard accepts the node.

NodeResourcesFit checks the requests against the node's published resources, before the extender is called. MidGuard
does not repeat that check: the extender's watch may be milliseconds behind kube-scheduler's, so when Mid appears on a
node it would reject the very pods that this event requeued, and no event would requeue them again for minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, quantities
from api_types.node_metric import mid_report, mid_resource
from scheduler_plugin.framework.interface import Explained, Pending, ReasonCodes
from scheduler_plugin.state.node_columns import Ints, NodeColumns, NodeEntry, Rows, grown
from scheduler_plugin.state.node_report import NodeReport
from scheduler_plugin.state.pod_info import PodInfo

REASON: Final = "node(s) didn't have enough Mid resources left by the newest prediction"

_UNBOUNDED: Final = (2**62, 2**62)
"""Mid of a node without a prediction."""


class MidGuard:
    """The filter plugin; it has no arguments."""

    name = "MidGuard"
    reasons: Sequence[str] = (REASON,)

    def __init__(self) -> None:
        self._left: Ints = np.zeros((2, 0), dtype=np.int64)
        """mid-cpu in milli-cores and mid-memory in bytes that are left on each node; negative if overcommitted."""
        self._predicted: dict[int, _PredictedMid] = {}
        """By row; calculated again only when the node's objects change, not with every pod."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._left = grown(self._left, capacity)

    def write(self, entry: NodeEntry) -> None:
        """Update one node's row."""
        known = self._predicted.get(entry.row)
        if known is None or known.node is not entry.node or known.report is not entry.load.report:
            known = self._predicted[entry.row] = _PredictedMid(entry)
        assigned = (entry.load.mid_cpu_millis, entry.load.mid_memory_bytes)
        self._left[:, entry.row] = [known.mid[0] - assigned[0], known.mid[1] - assigned[1]]

    def reject(
        self,
        pod: PodInfo,
        rows: Rows,
        vectors: NodeColumns,  # noqa: ARG002  # see Filter
        now: float,  # noqa: ARG002  # see Filter
        pending: Pending | None = None,
    ) -> ReasonCodes | None:
        """Reject candidates with too little left; pods that request no Mid pass."""
        if not pod.mid_cpu_millis and not pod.mid_memory_bytes:
            return None
        wanted = np.array([[pod.mid_cpu_millis], [pod.mid_memory_bytes]], dtype=np.int64)
        left = self._left[:, rows]
        if pending is not None and pending.mid is not None:
            left = left - pending.mid
        too_little = (wanted > 0) & (wanted > left)
        codes: ReasonCodes = np.any(too_little, axis=0).astype(np.int16)
        return codes

    def explain(self, pod: PodInfo, rows: Rows) -> Explained:
        """Return the Mid left on each candidate; no columns for a pod that requests no Mid."""
        is_guarded = pod.mid_cpu_millis or pod.mid_memory_bytes
        return Explained(names.MID_RESOURCES, {"midLeft": self._left.take(rows, axis=1)} if is_guarded else {})


class _PredictedMid:
    """Total mid-cpu and mid-memory that pods may request on a node, and the objects it was calculated from."""

    __slots__ = ("mid", "node", "report")

    def __init__(self, entry: NodeEntry) -> None:
        self.node = entry.node
        self.report = entry.load.report
        predicted = predicted_mid(self.report, entry.node, entry.allocatable) if self.report and entry.node else None
        self.mid = predicted or _UNBOUNDED


def predicted_mid(report: NodeReport, node: pods.Node, allocatable: pods.Resources) -> tuple[int, int] | None:
    """Calculate mid-cpu and mid-memory from the newest report; None if it lacks inputs of the formula.

    `allocatable` is the one that LoadAware uses; the amounts of the reservation annotation are subtracted here.
    """
    policy = report.mid_policy
    if policy is None:
        return None
    try:
        bound = mid_report.reported_requests(report.mid_report)
        if bound is None:
            return None
        if names.ANNOTATION_NODE_RESERVATION in pods.annotations_of(node.metadata):
            allocatable = node_reservation.allocatable(node).resources
        capacity = pods.units(node.status.capacity) if policy.static_percent else {}
        inputs = mid_report.inputs_from(report.mid_report, policy, allocatable, capacity, bound)
        mid_cpu, mid_memory = (mid_resource.calculate(inputs[native]).value for native in (names.CPU, names.MEMORY))
    except (mid_report.BadReport, mid_resource.NoPredictionError, quantities.InvalidQuantity):
        return None
    return min(mid_cpu, _UNBOUNDED[0]), min(mid_memory, _UNBOUNDED[1])
