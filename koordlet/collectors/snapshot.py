"""One tick over all collectors, which makes one snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from koordlet.collectors import node_usage
from koordlet.collectors.host import CollectStatistics, HostRoot
from koordlet.collectors.interface import Collector, Host, Tick
from koordlet.collectors.node_pressure import NodePressure
from koordlet.collectors.node_usage import MachineFacts, NodeUsageCollector
from koordlet.collectors.numa import NumaCollector
from koordlet.collectors.pod_pressure import PodPressure
from koordlet.collectors.pod_usage import PodUsageCollector
from koordlet.samples import Snapshot

COLLECTORS: Final[tuple[type[Collector], ...]] = (
    NodeUsageCollector,
    PodUsageCollector,
    NumaCollector,
    NodePressure,
    PodPressure,
)
"""In the order of a tick: pods come after the node, and before all that need their groups or the system's usage."""


_FACTS_EVERY_SECONDS: Final = 60.0
"""CPUs and memory of a machine change only by hotplug."""


class HostCollector:
    """Measures the node and its pods, once a tick.

    Not thread-safe: one thread ticks. The first tick has no rates and therefore no usage. A source that fails is
    missing from the snapshot, with a `NoData` for it; the rest of the snapshot is valid.
    """

    def __init__(
        self,
        host_root: HostRoot,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.statistics = CollectStatistics()
        host = Host(host_root, self.statistics, monotonic_ns)
        self.collectors: Sequence[Collector] = tuple(collector.on(host) for collector in COLLECTORS)
        self.host_root = host_root
        self._monotonic_ns = monotonic_ns
        self._facts: MachineFacts | None = None
        self._facts_until_seconds = 0.0

    def machine_facts(self) -> MachineFacts | None:
        """Return CPUs and memory of the machine, None while its /proc is unreadable (the node's `NoData` has why)."""
        now_seconds = self._monotonic_ns() / 1e9
        if self._facts is None or now_seconds >= self._facts_until_seconds:
            self._facts = node_usage.machine_facts(self.host_root.proc_root)
            self._facts_until_seconds = now_seconds + _FACTS_EVERY_SECONDS
        return self._facts

    def collect(
        self,
        now_seconds: float,
        named_containers: Mapping[str, int] | None = None,
        bound_pods: Container[str] | None = None,
        counts_page_cache: bool = False,
    ) -> Snapshot:
        """Do one tick and return its snapshot, stamped `now_seconds` (Unix time).

        `named_containers` are the ids to follow, with the whole CPUs that they request: usually those in the statuses
        of the pods, which excludes the sandboxes; None follows every container. `bound_pods` are UIDs; None while they
        are not known.
        """
        cpu_count, machine_bytes = self.machine_facts() or (None, None)
        tick = Tick(now_seconds, cpu_count, machine_bytes, named_containers, bound_pods, counts_page_cache)
        series = {}
        for collector in self.collectors:
            if collected := collector.collect(tick):
                series[collector.name] = collected
        return Snapshot(
            at_seconds=now_seconds,
            node=tick.node,
            system=tick.system,
            pods=tick.pods,
            unmeasured_pods=tick.unmeasured_pods,
            pods_in_system=tick.pods_in_system,
            series=series,
            no_data=tuple(tick.no_data),
        )

    def close(self) -> None:
        """Close every file."""
        for collector in self.collectors:
            collector.close()
