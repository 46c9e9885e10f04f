"""Usage of pods (CPU and memory), from the files of their cgroups.

All CPU counters are read first, in one short pass directly after the node's own counter, then all memory files. A pod
counts once, by its own group, which contains those of its containers. A pod whose usage since the previous tick is
unknown (new, gone, unreadable) makes the sum over pods unknown: `Tick.are_pods_complete` is False then. After
`MOST_UNMEASURED_TICKS` such ticks a pod no longer does: its usage then counts as system usage, which is an upper bound.
So one pod that cannot be read costs its own measurement, and not that of the node. After as many ticks in a row with
new or ended pods these count as system usage too: short pods, one after another, leave the sum known.

Pods are measured every tick, their memory every third tick in turns. Of containers only the groups are known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from koordlet.collectors import rates
from koordlet.collectors.cgroup import batch as cgroup_batch
from koordlet.collectors.cgroup.batch import CgroupBatch, CgroupReader
from koordlet.collectors.cgroup.discovery import CgroupDiscovery, DiscoveredGroups, FollowedGroups
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.interface import NO_SERIES, Collector, Host, Tick
from koordlet.collectors.open_files import DescriptorBudget
from koordlet.samples import NoData, SeriesKey, UsageSample

POD_MEMORY_TICKS = 3
"""Ticks from one reading of a pod's memory to the next."""

MOST_UNMEASURED_TICKS = 10
"""Ticks in a row for which an unmeasured pod leaves the sum over pods unknown: new pods need one, ending ones a few."""

_DISCOVERY = "pod discovery"
"""Name of the source, in statistics and in `NoData`."""


@dataclass(eq=False)
class PodUsageCollector(Collector):
    """Usage of pods from tick to tick, and of the system as the rest of the node."""

    name: ClassVar[str] = "pod usage"

    discovery: CgroupDiscovery
    budget: DescriptorBudget
    statistics: CollectStatistics
    monotonic_ns: Callable[[], int] = time.monotonic_ns

    def __post_init__(self) -> None:
        self._pods = CgroupBatch(self.statistics, POD_MEMORY_TICKS)
        self._followed_groups: FollowedGroups | None = None
        self._followed: tuple[DiscoveredGroups, Mapping[str, int] | None] | None = None
        self._pods_before: frozenset[str] = frozenset()
        self._unmeasured_ticks: Mapping[str, int] = {}
        """Pod UID -> ticks in a row without a sample."""
        self._incomplete_ticks = 0
        """Ticks in a row in which some pod had no sample, or had ended."""

    @classmethod
    def on(cls, host: Host) -> Self:
        """Construct the collector for a host."""
        discovery = CgroupDiscovery(host.root.cgroup_root)
        budget = DescriptorBudget.for_process()
        return cls(discovery, budget, host.statistics, host.monotonic_ns)

    def collect(self, tick: Tick) -> Mapping[SeriesKey, UsageSample]:
        """Add the usage of pods and system to the tick, and the groups of pods and of the containers that it names.

        The groups of pods that are not in `bound_pods` may be remains of ended pods; None: they are not known.
        """
        with self.statistics.timed(_DISCOVERY):
            groups = self.discovery.refresh(self.monotonic_ns() / 1e9)
            if isinstance(groups, NoData):
                self.statistics.failed(_DISCOVERY)
                self.close()
                tick.no_data.append(groups)
                return NO_SERIES
            self.statistics.failed(_DISCOVERY, len(groups.unmeasurable))
            self._follow(groups, tick.named_containers)
        pods = self._pods
        with self.statistics.timed(cgroup_batch.CPU):
            cpu_rates = pods.cpu_cores(self.monotonic_ns, tick.cpu_count)
        with self.statistics.timed(cgroup_batch.MEMORY):
            tick.pods = pods.usage(cpu_rates, tick.machine_bytes, tick.counts_page_cache, swap_bytes=tick.swap_bytes)
        for path in pods.ended:
            self.discovery.invalidate(path)
        tick.groups = self._followed_groups
        self._note_completeness(tick, groups)
        if tick.node is not None and tick.are_pods_complete:
            tick.system = rates.system_usage(tick.node, tick.pods.values())
        return NO_SERIES

    def close(self) -> None:
        """Close every file; a later tick opens them again."""
        self._pods.keep_only({})
        self._followed = self._followed_groups = None

    def _follow(self, groups: DiscoveredGroups, named_containers: Mapping[str, int] | None) -> None:
        """Open and close readers so that they match the groups that were discovered."""
        if self._followed is not None:
            before, named_before = self._followed
            if before is groups and (named_before is named_containers or named_before == named_containers):
                return
            if before.layout != groups.layout:
                self.close()
        self._followed = groups, named_containers
        paths = {uid: pod.path for uid, pod in groups.pods.items()}
        followed = {uid: (path, *_named(groups.pods[uid].containers, named_containers)) for uid, path in paths.items()}
        self._followed_groups = FollowedGroups(groups.layout, followed)
        self._pods.keep_only(paths)
        for uid, path in paths.items():
            if uid not in self._pods.readers:
                self._pods.readers[uid] = CgroupReader(groups.layout, path, self.budget)

    def _note_completeness(self, tick: Tick, groups: DiscoveredGroups) -> None:
        """Add to the tick which pods lack a sample, and whether the others are all that ran."""
        pods, bound_pods = tick.pods, tick.bound_pods
        unmeasured = (groups.pods.keys() - pods.keys()) | groups.unmeasurable.keys()
        self._unmeasured_ticks = {uid: self._unmeasured_ticks.get(uid, 0) + 1 for uid in unmeasured}
        lasting = frozenset(uid for uid, ticks in self._unmeasured_ticks.items() if ticks > MOST_UNMEASURED_TICKS)
        partial = {uid: no_data for uid, no_data in self._pods.partial.items() if uid in lasting}
        orphans = frozenset(uid for uid in partial if bound_pods is not None and uid not in bound_pods)
        expected, unknown = self._pods_before - lasting, unmeasured - lasting
        complete = not unknown and expected <= pods.keys()
        self._incomplete_ticks = 0 if complete else self._incomplete_ticks + 1
        if self._incomplete_ticks > MOST_UNMEASURED_TICKS:
            unknown &= expected  # not the new ones
            complete = not unknown
        self._pods_before = frozenset(self._pods.readers) - lasting
        self.statistics.groups = len(self._pods.readers)
        self.statistics.open_files = self.budget.open_files
        self.statistics.pods_in_system = len(lasting) - len(orphans)
        self.statistics.orphan_groups = len(orphans)
        tick.unmeasured_pods, tick.pods_in_system = frozenset(unknown), lasting - orphans
        tick.are_pods_complete = complete
        tick.no_data += groups.unmeasurable.values()
        tick.no_data += [no_data for uid, no_data in partial.items() if uid not in orphans]
        tick.no_data += self._pods.no_data.values()


def _named(containers: Mapping[str, str], names: Container[str] | None) -> list[str]:
    """Return the groups of the named containers, of all for None."""
    return [path for container, path in containers.items() if names is None or container in names]
