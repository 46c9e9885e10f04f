"""CPU and memory of every pod and container, from the files of their cgroups.

All CPU counters are read first, in one short pass right after the node's own counter, then all memory files. A pod
counts once, by its own group, which contains those of its containers. A pod whose usage since the tick before is not
known (new, gone, unreadable) leaves the sum over pods unknown, and `PodMeasurements.complete` says so.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeVar

from koordlet.collectors.cgroup_discovery import CgroupDiscovery, DiscoveredGroups, FollowedGroups
from koordlet.collectors.cgroup_layout import CgroupLayout
from koordlet.collectors.cgroup_reader import CgroupReader
from koordlet.collectors.collect_statistics import CollectStatistics
from koordlet.collectors.counter_rates import NoRate
from koordlet.collectors.kept_files import DescriptorBudget
from koordlet.samples import NoData, UsageSample

_T = TypeVar("_T")

CONTAINER_MEMORY_TICKS = 5
"""The memory of a container is read every so many ticks, by turns; that of a pod, on which decisions rest, every tick.

memory.stat is the dearest file: the kernel prints all of it, and takes two thirds of the time of all reads.
"""

_DISCOVERY, _CPU, _MEMORY = "pod discovery", "pod cpu", "pod memory"
"""Names of the sources, in statistics and in `NoData`."""

_ORDINARY = (NoRate.FIRST_READING, NoRate.OTHER_COUNTER)
"""Reasons that belong to the life of a group and tell of no fault."""


@dataclass(frozen=True, slots=True)
class PodMeasurements:
    """What one tick learnt of the pods."""

    pods: Mapping[str, UsageSample] = field(default_factory=dict)
    containers: Mapping[str, UsageSample] = field(default_factory=dict)
    """By container id. The memory in it is up to `CONTAINER_MEMORY_TICKS - 1` ticks old."""
    containers_of_pod: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unmeasured_pods: frozenset[str] = frozenset()
    complete: bool = False
    """Whether `pods` is all that ran in pods since the tick before: none is unmeasured and none went away."""
    no_data: tuple[NoData, ...] = ()


class PodUsage:
    """Follows the groups of pods and containers from tick to tick."""

    def __init__(
        self,
        discovery: CgroupDiscovery,
        budget: DescriptorBudget,
        statistics: CollectStatistics,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._discovery = discovery
        self._budget = budget
        self._statistics = statistics
        self._monotonic_ns = monotonic_ns
        self._pods: dict[str, CgroupReader] = {}
        self._containers: dict[str, CgroupReader] = {}
        self._containers_of_pod: dict[str, tuple[str, ...]] = {}
        self._container_memory: dict[str, int] = {}
        self.followed_groups: FollowedGroups | None = None
        """Those of the last tick; None where no group could be found."""
        self._followed: tuple[DiscoveredGroups, frozenset[str] | None] | None = None
        self._pods_before: frozenset[str] = frozenset()
        self._no_data: list[NoData] = []
        self._ticks = 0

    def collect(self, cpu_count: int | None = None, named_containers: frozenset[str] | None = None) -> PodMeasurements:
        """Read every group once. `named_containers` limits the containers that are read; None reads all."""
        self._ticks += 1
        with self._statistics.timed(_DISCOVERY):
            found = self._discovery.refresh(self._monotonic_ns() / 1e9)
            if isinstance(found, NoData):
                self._statistics.failed(_DISCOVERY)
                self.close()
                return PodMeasurements(no_data=(found,))
            self._statistics.failed(_DISCOVERY, len(found.unmeasurable))
            self._follow(found, named_containers)
        self._no_data = list(found.unmeasurable.values())
        with self._statistics.timed(_CPU):
            pod_rates = self._rates(self._pods, cpu_count)
            container_rates = self._rates(self._containers, cpu_count)
        with self._statistics.timed(_MEMORY):
            pod_memory = self._read(_MEMORY, self._pods, pod_rates, CgroupReader.memory_bytes)
            self._read_container_memory(container_rates)
        return self._measurements(
            pods={uid: UsageSample(pod_rates[uid], float(used)) for uid, used in pod_memory.items()},
            containers={
                container: UsageSample(rate, float(self._container_memory[container]))
                for container, rate in container_rates.items()
                if container in self._container_memory
            },
            known=found.pods.keys() | found.unmeasurable.keys(),
        )

    def close(self) -> None:
        """Close every file; a later tick begins anew."""
        for reader in (*self._pods.values(), *self._containers.values()):
            reader.close()
        self._pods.clear()
        self._containers.clear()
        self._container_memory.clear()
        self._followed = self.followed_groups = None

    def _follow(self, found: DiscoveredGroups, named_containers: frozenset[str] | None) -> None:
        """Open and close readers so that they are those of the groups found."""
        if self._followed == (found, named_containers):
            return
        if self._followed is not None and self._followed[0].layout != found.layout:
            self.close()
        self._followed = found, named_containers
        containers = {
            uid: {
                container: path
                for container, path in pod.containers.items()
                if named_containers is None or container in named_containers
            }
            for uid, pod in found.pods.items()
        }
        self._containers_of_pod = {uid: tuple(paths) for uid, paths in containers.items()}
        self.followed_groups = FollowedGroups(
            found.layout, {uid: (found.pods[uid].path, *paths.values()) for uid, paths in containers.items()}
        )
        self._open(found.layout, self._pods, {uid: pod.path for uid, pod in found.pods.items()})
        self._open(
            found.layout,
            self._containers,
            {name: path for paths in containers.values() for name, path in paths.items()},
        )
        for container in self._container_memory.keys() - self._containers.keys():
            del self._container_memory[container]

    def _open(self, layout: CgroupLayout, readers: dict[str, CgroupReader], paths: Mapping[str, str]) -> None:
        for identity, reader in list(readers.items()):
            if paths.get(identity) != reader.path:
                readers.pop(identity).close()
        for identity, path in paths.items():
            if identity not in readers:
                readers[identity] = CgroupReader(layout, path, self._budget)

    def _rates(self, readers: dict[str, CgroupReader], cpu_count: int | None) -> dict[str, float]:
        """Read CPU counters; keep the rates, report the missing ones that tell of a fault."""
        read = operator.methodcaller("cpu_cores", self._monotonic_ns, cpu_count)
        readings = self._read(_CPU, readers, list(readers), read)
        rates: dict[str, float] = {}
        for identity, rate in readings.items():
            if not isinstance(rate, NoRate):
                rates[identity] = rate
            elif rate not in _ORDINARY:
                self._fault(_CPU, readers[identity], rate.value)
        return rates

    def _read_container_memory(self, container_rates: Mapping[str, float]) -> None:
        """Read the memory of new containers, and of the others by turns."""
        due = [
            container
            for turn, container in enumerate(container_rates, start=self._ticks)
            if turn % CONTAINER_MEMORY_TICKS == 0 or container not in self._container_memory
        ]
        read = self._read(_MEMORY, self._containers, due, CgroupReader.memory_bytes)
        for container in due:
            self._container_memory.pop(container, None)
        self._container_memory.update(read)

    def _read(
        self,
        source: str,
        readers: dict[str, CgroupReader],
        identities: Iterable[str],
        read: Callable[[CgroupReader], _T],
    ) -> dict[str, _T]:
        """Read those that can be read; take the others for ended, or report them."""
        values: dict[str, _T] = {}
        for identity in identities:
            reader = readers[identity]
            try:
                values[identity] = read(reader)
            except (OSError, ValueError) as problem:
                if reader.is_gone_by(problem):
                    reader.close()
                    del readers[identity]
                    self._discovery.look_again(reader.path)
                else:
                    strerror = problem.strerror if isinstance(problem, OSError) else None
                    self._fault(source, reader, strerror or str(problem))
        return values

    def _fault(self, source: str, reader: CgroupReader, reason: str) -> None:
        file = reader.cpu_file if source == _CPU else reader.memory_file
        self._statistics.failed(source)
        self._no_data.append(NoData(source, file.path, reason))

    def _measurements(
        self, pods: Mapping[str, UsageSample], containers: Mapping[str, UsageSample], known: AbstractSet[str]
    ) -> PodMeasurements:
        unmeasured = frozenset(known - pods.keys())
        complete = not unmeasured and self._pods_before <= pods.keys()
        self._pods_before = frozenset(self._pods)
        self._statistics.groups = len(self._pods) + len(self._containers)
        self._statistics.descriptors_kept = self._budget.kept
        return PodMeasurements(
            pods=pods,
            containers=containers,
            containers_of_pod=self._containers_of_pod,
            unmeasured_pods=unmeasured,
            complete=complete,
            no_data=tuple(self._no_data),
        )
