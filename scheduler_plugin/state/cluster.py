"""Cluster state: nodes, NodeMetrics, and the node on which each pod counts.

A pod counts on one node at most. Its key is namespace and name, which belong to one pod at a time: another UID under a
known name replaces the previous pod. As in the cache of kube-scheduler, a pod is assumed on the node that is chosen for
it, until it is shown there, given up, or its time is over. Time is passed in; every method leaves the rows consistent.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Container, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, quantities
from scheduler_plugin.state import mid_quotas, node_report, pod_info, vectors
from scheduler_plugin.state.blindness import NodePools
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.node_columns import NodeColumns, NodeEntry
from scheduler_plugin.state.node_load import NodeLoad
from scheduler_plugin.state.node_report import NodeMetric, NodeReport
from scheduler_plugin.state.pod_info import AssignedPod

log = logging.getLogger(__name__)

_READ_ANNOTATIONS: Final = (
    names.ANNOTATION_MID_STATUS,
    names.ANNOTATION_MID_EVICTION,
    names.ANNOTATION_NODE_RESERVATION,
    names.ANNOTATION_RAW_ALLOCATABLE,
    names.ANNOTATION_USAGE_THRESHOLDS,
)


@dataclass(eq=False)
class Cluster:
    """Entries by node name, and the node of each assigned pod."""

    estimator_args: EstimatorArgs
    vectors: NodeColumns
    _: KW_ONLY
    system_in_prod: bool
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._node_of: dict[str, NodeEntry] = {}
        """Node entry of each pod key. The only index of all pods: it takes 15 MiB at 450,000."""
        self._assumed: dict[str, float] = {}
        """Monotonic time by pod key until which an assumed pod counts."""
        self._reports = 0
        self.resources = self.estimator_args.resources
        self.entries: dict[str, NodeEntry] = {}
        self.pools = NodePools()

    # nodes

    def node_changed(self, node: pods.Node) -> None:
        """Store a node's newest object."""
        entry = self._entry(node.metadata.name)
        entry.node = slim(node)
        self.pools.put(entry.row, entry.name, pods.label_map(node.metadata))
        try:
            allocatable = pods.allocatable(node)
            entry.allocatable = {name: vectors.cut(amount) for name, amount in allocatable.items()}
        except quantities.InvalidQuantity as error:
            log.warning("node %s: status.allocatable is malformed (%s), using an empty one", entry.name, error)
            entry.allocatable = {}
        self.vectors.write(entry)

    def node_deleted(self, name: str) -> None:
        """Drop a node's object; its pods and its NodeMetric have deletions of their own."""
        entry = self.entries.get(name)
        if entry is not None:
            entry.node = None
            entry.allocatable = {}
            self.pools.remove(entry.row)
            self._update_row(entry)

    def keep_nodes(self, existing: Container[str]) -> Iterator[None]:
        """Drop the nodes that a new list no longer contains, a slice with each step."""
        for name in [name for name, entry in self.entries.items() if entry.node is not None and name not in existing]:
            self.node_deleted(name)
            yield

    # NodeMetrics

    def metric_changed(self, metric: NodeMetric) -> None:
        """Store a node's newest report, of any age: the last one to arrive counts."""
        entry = self._entry(metric.metadata.name)
        known_keys = {key: key for key in entry.load.pods}
        self._reports += entry.load.report is None
        entry.load.set_report(node_report.read(metric, self.resources, known_keys))
        self.vectors.write(entry)

    def metric_deleted(self, name: str) -> None:
        """Drop a node's report."""
        entry = self.entries.get(name)
        if entry is not None:
            self._reports -= entry.load.report is not None
            entry.load.drop_report()
            self._update_row(entry)

    def reports(self) -> dict[str, NodeReport]:
        """Return the newest report of each node that has one."""
        return {name: entry.load.report for name, entry in self.entries.items() if entry.load.report is not None}

    def keep_metrics(self, existing: Container[str]) -> Iterator[None]:
        """Drop the reports that a new list no longer contains, a slice with each step."""
        for name in [name for name in self.reports() if name not in existing]:
            self.metric_deleted(name)
            yield

    # pods

    def pod_changed(self, pod: pods.Pod, now: float) -> None:
        """Store a pod that the watch shows. It replaces an assumed pod, and another pod of that name."""
        if not pod.spec.node_name:
            return
        key = pod_info.key(pod)
        counted = self._held(key)
        if counted is not None and (counted.uid != pod.metadata.uid or self._node_of[key].name != pod.spec.node_name):
            self._forget(key)
            counted = None
        if not pod_info.counts_on_its_node(pod, self.estimator_args):
            self._forget(key)
        elif counted is None or not counted.observed or counted.signature != pod_info.signature(pod):
            self._assign(pod.spec.node_name, pod_info.assigned(pod, self.estimator_args, now, observed=True))

    def pod_deleted(self, namespace: str, name: str, uid: str | None = None) -> None:
        """Remove the pod `namespace/name`. With `uid`, only if the counted pod has that UID."""
        key = pod_info.pod_key(namespace, name)
        counted = self._held(key)
        if counted is not None and uid in (None, counted.uid):
            self._forget(key)

    def mid_requests(self, node_name: str, uids: Container[str], namespace: str = "") -> tuple[int, int]:
        """Return the sums of mid-cpu (milli-cores) and mid-memory (bytes) of the pods with these UIDs on a node.

        With `namespace`, only of the pods in that namespace.
        """
        entry = self.entries.get(node_name)
        held_pods = [pod for pod in entry.load.pods.values() if pod.uid in uids] if entry else []
        if namespace:
            held_pods = [pod for pod in held_pods if mid_quotas.pod_namespace(pod.key) == namespace]
        return sum(pod.mid_cpu_millis for pod in held_pods), sum(pod.mid_memory_bytes for pod in held_pods)

    def keep_pods(self, existing: Container[int]) -> Iterator[None]:
        """Drop the pods that a new list no longer contains, except assumed ones: the list may be older than these.

        `existing` contains the `pod_info.pod_digest` of each pod. One slice with each step.
        """
        for entry in list(self.entries.values()):
            gone = [pod.key for pod in entry.load.pods.values() if pod.observed and hash(pod.key) not in existing]
            for key in gone:
                self._forget(key)
            yield

    # assumed pods

    def assume_pod(self, pod: pods.Pod, node_name: str, now: float, seconds: float = math.inf) -> bool:
        """Count a pod by its object; see `assume`."""
        if not node_name or not pod_info.counts_on_its_node(pod, self.estimator_args):
            return False
        return self.assume(pod_info.assigned(pod, self.estimator_args, now, observed=False), node_name, seconds)

    def assume(self, record: AssignedPod, node_name: str, seconds: float = math.inf) -> bool:
        """Count a pod on the node that is chosen for it, for so long; False if it is already shown on a node."""
        counted = self._held(record.key)
        if counted is not None and counted.uid == record.uid and counted.observed:
            return False
        self._forget(record.key)
        self._assign(node_name, record)
        self._assumed[record.key] = self.monotonic() + seconds
        return True

    def stop_assuming(self, key: str, uid: str) -> None:
        """Remove an assumed pod that was not bound."""
        counted = self._held(key)
        if counted is not None and counted.uid == uid and not counted.observed:
            self._forget(key)

    def expire_assumed(self) -> None:
        """Remove the assumed pods whose time is over."""
        now = self.monotonic()
        for key in [key for key, until in self._assumed.items() if until <= now]:
            self._forget(key)

    # sizes

    def counts(self) -> dict[str, int]:
        """Return the number of nodes, reports, pods and assumed pods in memory."""
        return {
            "nodes": len(self.vectors.rows),
            "node_metrics": self._reports,
            "pods": len(self._node_of),
            "unconfirmed_pods": len(self._assumed),
        }

    def _assign(self, node_name: str, record: AssignedPod) -> None:
        entry = self._entry(node_name)
        if entry.load.report is not None:
            record = msgspec.structs.replace(record, key=entry.load.report.pods.own_key(record.key))
        entry.load.assign(record)
        self._node_of[record.key] = entry
        self.vectors.mid_quotas.assigned(record)
        if record.observed:
            self._assumed.pop(record.key, None)
        self.vectors.write(entry)

    def _held(self, key: str) -> AssignedPod | None:
        entry = self._node_of.get(key)
        return None if entry is None else entry.load.pods[key]

    def _forget(self, key: str) -> None:
        entry = self._node_of.pop(key, None)
        if entry is not None:
            self._assumed.pop(key, None)
            self.vectors.mid_quotas.removed(key)
            entry.load.remove(key)
            self._update_row(entry)

    def _entry(self, name: str) -> NodeEntry:
        entry = self.entries.get(name)
        if entry is None:
            load = NodeLoad(len(self.resources), system_in_prod=self.system_in_prod)
            entry = self.entries[name] = NodeEntry(name, self.vectors.take_row(), load)
        return entry

    def _update_row(self, entry: NodeEntry) -> None:
        self.vectors.write(entry)
        if entry.is_empty():
            del self.entries[entry.name]
            self.vectors.free_row(entry)


def slim(node: pods.Node) -> pods.Node:
    """Drop labels, taints, and all annotations that no plugin reads or that are too long: kilobytes on every node."""
    annotations = pods.annotation_map(node.metadata)
    texts = {name: pods.annotation(annotations, name) for name in _READ_ANNOTATIONS}
    return msgspec.structs.replace(
        node,
        metadata=pods.ObjectMeta(
            name=node.metadata.name,
            uid=node.metadata.uid,
            annotations={name: text for name, text in texts.items() if text is not None},
        ),
        spec=pods.NodeSpec(),
    )
