"""The cluster as the watches and the bind notices tell it: nodes, NodeMetrics, and where each pod counts.

One pod counts on one node at most. It is found by namespace and name, which belong to one pod at a time: another UID
under a known name ends the pod before. The bind notice puts it there early; the watch confirms it, moves it, or, by
staying silent for `notice_ttl_seconds`, lets it go (koordinator-loadaware section 7, design 4.7).
Time is passed in; every method leaves the rows consistent.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Container, Iterator
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, quantities
from scheduler_plugin.state import estimator, node_metric_decoder, pod_info
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.node_columns import NodeColumns, NodeEntry
from scheduler_plugin.state.node_load import NodeLoad
from scheduler_plugin.state.node_metric_decoder import NodeMetric
from scheduler_plugin.state.node_report import NodeReport
from scheduler_plugin.state.pod_info import AssignedPod

log = logging.getLogger(__name__)

_READ_ANNOTATIONS: Final = (
    names.ANNOTATION_NODE_RESERVATION,
    names.ANNOTATION_RAW_ALLOCATABLE,
    names.ANNOTATION_USAGE_THRESHOLDS,
)


class Cluster:
    """Entries by node name, and the node of each assigned pod."""

    def __init__(
        self, policy: EstimatorArgs, vectors: NodeColumns, *, system_in_prod: bool, notice_ttl_seconds: float
    ) -> None:
        self._policy = policy
        self._system_in_prod = system_in_prod
        self._notice_ttl_seconds = notice_ttl_seconds
        self._node_of: dict[str, NodeEntry] = {}
        """Where the pod of a key counts. The only index of all pods: it takes 15 MiB at 450,000."""
        self._noticed: collections.OrderedDict[str, float] = collections.OrderedDict()
        """Pod key -> end of patience, of pods that only a bind notice put on their node; oldest first."""
        self._reports = 0
        self.resources = policy.resources
        self.vectors = vectors
        self.entries: dict[str, NodeEntry] = {}

    # nodes

    def node_changed(self, node: pods.Node) -> None:
        """Take a node's newest object."""
        entry = self._entry(node.metadata.name)
        entry.node = slim(node)
        try:
            allocatable = pods.allocatable(node)
            entry.allocatable = {name: estimator.cut(amount) for name, amount in allocatable.items()}
        except quantities.InvalidQuantity as error:
            log.warning("node %s: status.allocatable cannot be read (%s), taken as empty", entry.name, error)
            entry.allocatable = {}
        self.vectors.write(entry)

    def node_deleted(self, name: str) -> None:
        """Forget a node's object; pods and NodeMetric have deletions of their own."""
        entry = self.entries.get(name)
        if entry is not None:
            entry.node = None
            entry.allocatable = {}
            self._settle(entry)

    def keep_nodes(self, existing: Container[str]) -> Iterator[None]:
        """Forget the nodes that a new list no longer holds, a slice with each step."""
        for name, entry in list(self.entries.items()):
            if entry.node is not None and name not in existing:
                self.node_deleted(name)
                yield

    # NodeMetrics

    def metric_changed(self, metric: NodeMetric) -> None:
        """Take a node's newest report, whatever its age: reports count in the order they arrive."""
        entry = self._entry(metric.metadata.name)
        known_keys = {key: key for key in entry.load.pods}
        self._reports += entry.load.report is None
        entry.load.set_report(node_metric_decoder.read(metric, self.resources, known_keys))
        self.vectors.write(entry)

    def metric_deleted(self, name: str) -> None:
        """Forget a node's report."""
        entry = self.entries.get(name)
        if entry is not None:
            self._reports -= entry.load.report is not None
            entry.load.drop_report()
            self._settle(entry)

    def reports(self) -> dict[str, NodeReport]:
        """Newest report of each node that has one."""
        return {name: entry.load.report for name, entry in self.entries.items() if entry.load.report is not None}

    def keep_metrics(self, existing: Container[str]) -> Iterator[None]:
        """Forget the reports that a new list no longer holds, a slice with each step."""
        for name, entry in list(self.entries.items()):
            if entry.load.report is not None and name not in existing:
                self.metric_deleted(name)
                yield

    # pods

    def pod_changed(self, pod: pods.Pod, now: float) -> None:
        """Take what the watch shows of a pod; it wins over any notice, and over another pod of that name."""
        if not pod.spec.node_name:
            return
        key = pod_info.key(pod)
        known = self._held(key)
        if known is not None and (known.uid != pod.metadata.uid or self._node_of[key].name != pod.spec.node_name):
            self._forget(key)
            known = None
        if not pod_info.counts_on_its_node(pod):
            self._forget(key)
        elif known is None or known.signature != pod_info.signature(pod):
            self._assign(pod.spec.node_name, pod, now, confirmed=True)
        elif not known.confirmed:
            self._noticed.pop(key, None)
            self._node_of[key].load.pods[key] = msgspec.structs.replace(known, confirmed=True)

    def pod_deleted(self, namespace: str, name: str, uid: str | None = None) -> None:
        """Stop counting a pod, but not one of that name with another UID; whatever counts there where none is told."""
        key = node_metric_decoder.pod_key(namespace, name)
        known = self._held(key)
        if known is not None and uid in (None, known.uid):
            self._forget(key)

    def find_pod(self, pod: pods.Pod) -> tuple[str, AssignedPod] | None:
        """Name of the node this very pod counts on, and its record; None where it counts nowhere."""
        key = pod_info.key(pod)
        known = self._held(key)
        return None if known is None or known.uid != pod.metadata.uid else (self._node_of[key].name, known)

    def shows_pod(self, namespace: str, name: str) -> bool:
        """Whether a pod of that name counts somewhere, by the watch's word."""
        known = self._held(node_metric_decoder.pod_key(namespace, name))
        return known is not None and known.confirmed

    def keep_pods(self, existing: Container[int]) -> Iterator[None]:
        """Forget the pods that a new list no longer holds, but for those only noticed: the list may be older.

        `existing` holds the `pod_digest` of each pod. A slice with each step.
        """
        for entry in list(self.entries.values()):
            gone = [pod.key for pod in entry.load.pods.values() if pod.confirmed and hash(pod.key) not in existing]
            for key in gone:
                self._forget(key)
            yield

    # bind notices

    def pod_noticed(self, pod: pods.Pod, node_name: str, now: float) -> bool:
        """Count a pod on the node the scheduler is about to bind it to; False where the watch already knows better."""
        if not node_name or not pod_info.counts_on_its_node(pod):
            return False
        key = pod_info.key(pod)
        known = self._held(key)
        if known is not None and known.uid == pod.metadata.uid and known.confirmed:
            return False
        self._forget(key)
        self._assign(node_name, pod, now, confirmed=False)
        self._noticed[key] = now + self._notice_ttl_seconds
        return True

    def notice_void(self, pod: pods.Pod) -> None:
        """Take back a notice: the scheduler asks about the pod again, so it was not bound."""
        key = pod_info.key(pod)
        known = self._held(key)
        if known is not None and known.uid == pod.metadata.uid and not known.confirmed:
            self._forget(key)

    def expire_notices(self, now: float) -> int:
        """Take back the notices that no watch event confirmed in time; return how many."""
        expired = 0
        while self._noticed and next(iter(self._noticed.values())) <= now:
            self._forget(next(iter(self._noticed)))
            expired += 1
        return expired

    # sizes

    def counts(self) -> dict[str, int]:
        """How many nodes, reports, pods and unconfirmed notices are held."""
        return {
            "nodes": len(self.vectors.rows),
            "node_metrics": self._reports,
            "pods": len(self._node_of),
            "unconfirmed_pods": len(self._noticed),
        }

    def _assign(self, node_name: str, pod: pods.Pod, now: float, *, confirmed: bool) -> None:
        entry = self._entry(node_name)
        record = pod_info.assigned(pod, self._policy, now, confirmed=confirmed)
        if entry.load.report is not None:
            record = msgspec.structs.replace(record, key=entry.load.report.pods.own_key(record.key))
        entry.load.assign(record)
        self._node_of[record.key] = entry
        if confirmed:
            self._noticed.pop(record.key, None)
        self.vectors.write(entry)

    def _held(self, key: str) -> AssignedPod | None:
        entry = self._node_of.get(key)
        return None if entry is None else entry.load.pods[key]

    def _forget(self, key: str) -> None:
        entry = self._node_of.pop(key, None)
        if entry is not None:
            self._noticed.pop(key, None)
            entry.load.remove(key)
            self._settle(entry)

    def _entry(self, name: str) -> NodeEntry:
        entry = self.entries.get(name)
        if entry is None:
            load = NodeLoad(len(self.resources), system_in_prod=self._system_in_prod)
            entry = self.entries[name] = NodeEntry(name, self.vectors.take_row(), load)
        return entry

    def _settle(self, entry: NodeEntry) -> None:
        self.vectors.write(entry)
        if entry.is_empty():
            del self.entries[entry.name]
            self.vectors.free_row(entry)


def slim(node: pods.Node) -> pods.Node:
    """Leave out labels and all annotations but those that policies read: kilobytes on every node."""
    annotations = pods.annotations_of(node.metadata)
    kept = {name: annotations[name] for name in _READ_ANNOTATIONS if name in annotations}
    return msgspec.structs.replace(
        node, metadata=pods.ObjectMeta(name=node.metadata.name, uid=node.metadata.uid, annotations=kept)
    )
