"""The table of collectors, and the tick that makes one snapshot of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from koordlet.collectors import node_usage, rates
from koordlet.collectors.cgroup.discovery import CgroupDiscovery
from koordlet.collectors.host_root import HostRoot
from koordlet.collectors.node_pressure import NodePressure
from koordlet.collectors.node_usage import MachineFacts, NodeMeasurement, NodeUsage
from koordlet.collectors.numa import attribution
from koordlet.collectors.numa.attribution import NumaMeasurement
from koordlet.collectors.numa.collector import NumaUsage
from koordlet.collectors.open_files import DescriptorBudget
from koordlet.collectors.pod_pressure import PodPressure
from koordlet.collectors.pod_usage import PodMeasurements, PodUsage
from koordlet.collectors.statistics import CollectStatistics
from koordlet.samples import NoData, Snapshot

_FACTS_EVERY_SECONDS = 60.0
"""CPUs and memory of a machine change by hotplug only."""


@dataclass(frozen=True, slots=True)
class Collectors:
    """Everything that is measured, in the order it is read. A new collector is a field here and a line in `collect`."""

    node: NodeUsage
    pods: PodUsage
    numa: NumaUsage
    node_pressure: NodePressure
    pod_stalls: PodPressure


class SnapshotCollector:
    """Measures the node and its pods, once a tick.

    Not thread-safe: one thread ticks. The first tick has no rates and so no usage; a source that fails is missing from
    the snapshot with a `NoData`, and the rest of the snapshot stands.
    """

    def __init__(self, host_root: HostRoot, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.statistics = CollectStatistics()
        self._host_root = host_root
        self._monotonic_ns = monotonic_ns
        self.collectors = Collectors(
            node=NodeUsage(host_root.proc_root, self.statistics, monotonic_ns),
            pods=PodUsage(
                CgroupDiscovery(host_root.cgroup_root), DescriptorBudget.of_process(), self.statistics, monotonic_ns
            ),
            numa=NumaUsage(host_root, self.statistics, monotonic_ns),
            node_pressure=NodePressure(host_root.proc_root, self.statistics),
            pod_stalls=PodPressure(self.statistics),
        )
        self._facts: MachineFacts | None = None
        self._facts_until_seconds = 0.0

    def machine_facts(self) -> MachineFacts | None:
        """Return what the machine has, None while its /proc is unreadable (the node's own `NoData` says why)."""
        now_seconds = self._monotonic_ns() / 1e9
        if self._facts is None or now_seconds >= self._facts_until_seconds:
            self._facts = node_usage.machine_facts(self._host_root.proc_root)
            self._facts_until_seconds = now_seconds + _FACTS_EVERY_SECONDS
        return self._facts

    def collect(self, now_seconds: float, named_containers: frozenset[str] | None = None) -> Snapshot:
        """Do one tick and return the snapshot of it, stamped `now_seconds` (Unix time).

        `named_containers` are the ids worth reading, usually those that the statuses of the pods name, which leaves
        out the sandboxes; None reads every container.
        """
        facts = self.machine_facts()
        cpu_count, machine_bytes = facts or (None, None)
        node = self.collectors.node.collect(cpu_count)
        pods = self.collectors.pods.collect(cpu_count, named_containers, machine_bytes)
        numa = self.collectors.numa.collect(self.collectors.pods.followed_groups if pods.complete else None)
        beside = (
            *self.collectors.numa.no_data,
            *self.collectors.node_pressure.collect(),
            *self.collectors.pod_stalls.collect(self.collectors.pods.followed_groups),
        )
        return _snapshot(now_seconds, node, pods, numa, beside)

    def close(self) -> None:
        """Close every file."""
        self.collectors.pods.close()


def _snapshot(
    now_seconds: float,
    node: NodeMeasurement,
    pods: PodMeasurements,
    numa: NumaMeasurement | None,
    beside: tuple[NoData, ...],
) -> Snapshot:
    system = None
    if node.usage is not None and pods.complete:
        system = rates.system_usage(node.usage, pods.pods.values())
    return Snapshot(
        at_seconds=now_seconds,
        node=node.usage,
        system=system,
        pods=pods.pods,
        containers=pods.containers,
        unmeasured_pods=pods.unmeasured_pods,
        numa={} if numa is None else attribution.samples(numa, system),
        no_data=node.no_data + pods.no_data + beside,
    )
