"""Whether the state holds what an object says. Pure.

The same objects read anew must lead to the same entries, and the sums of a node to what its pods and report add up to.
"""

from __future__ import annotations

from collections.abc import Iterator

from api_types.kubernetes import pods
from scheduler_plugin.state import node_metric_decoder, pod_info
from scheduler_plugin.state.cluster import Cluster, slim
from scheduler_plugin.state.node_columns import NodeEntry
from scheduler_plugin.state.node_metric_decoder import NodeMetric

Key = tuple[str, str]
"""Namespace and name."""


def holds_node(cluster: Cluster, node: pods.Node) -> bool:
    """Whether the node is known as it is."""
    entry = cluster.entries.get(node.metadata.name)
    return entry is not None and entry.node == slim(node)


def holds_metric(cluster: Cluster, metric: NodeMetric) -> bool:
    """Whether the newest report of the node is this one."""
    entry = cluster.entries.get(metric.metadata.name)
    return entry is not None and entry.load.report == node_metric_decoder.read(metric, cluster.resources)


def holds_pod(cluster: Cluster, pod: pods.Pod) -> bool:
    """Whether the pod counts where it should, or nowhere if it should not."""
    found = cluster.find_pod(pod)
    should_be_on = pod.spec.node_name if pod_info.counts_on_its_node(pod) else ""
    if found is None or not should_be_on:
        return found is None and not should_be_on
    held_on, record = found
    return held_on == should_be_on and record.confirmed and record.signature == pod_info.signature(pod)


def sums_are_right(entry: NodeEntry) -> bool:
    """Whether the sums kept step by step are those of the pods and the report at hand."""
    return entry.load.sums() == entry.load.from_scratch().sums()


def knows_node(cluster: Cluster, key: Key) -> bool:
    """Whether there is a node of that name."""
    entry = cluster.entries.get(key[1])
    return entry is not None and entry.node is not None


def knows_metric(cluster: Cluster, key: Key) -> bool:
    """Whether there is a report of that name."""
    entry = cluster.entries.get(key[1])
    return entry is not None and entry.load.report is not None


def knows_pod(cluster: Cluster, key: Key) -> bool:
    """Whether the watch has shown a pod of that name on a node."""
    return cluster.shows_pod(*key)


def nodes_held(cluster: Cluster) -> Iterator[Key]:
    """Nodes whose object is known."""
    return (("", name) for name, entry in list(cluster.entries.items()) if entry.node is not None)


def metrics_held(cluster: Cluster) -> Iterator[Key]:
    """Nodes whose report is known."""
    return (("", name) for name, entry in list(cluster.entries.items()) if entry.load.report is not None)


def pods_held(cluster: Cluster) -> Iterator[Key]:
    """Pods that the watch has shown on a node."""
    for entry in list(cluster.entries.values()):
        for pod in list(entry.load.pods.values()):
            if pod.confirmed:
                namespace, _, name = pod.key.partition("/")
                yield namespace, name
