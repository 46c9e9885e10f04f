"""CPU and memory of every pod and container, from the files of their cgroups.

All CPU counters are read first, in one short pass right after the node's own counter, then all memory files. A pod
counts once, by its own group, which contains those of its containers. A pod whose usage since the tick before is not
known (new, gone, unreadable) leaves the sum over pods unknown, and `PodMeasurements.complete` says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from koordlet.collectors.cgroup_discovery import CgroupDiscovery, DiscoveredGroups
from koordlet.collectors.cgroup_reader import CgroupReader
from koordlet.collectors.collect_statistics import CollectStatistics
from koordlet.collectors.counter_rates import NoRate
from koordlet.collectors.kept_files import DescriptorBudget
from koordlet.samples import NoData, UsageSample

_T = TypeVar("_T")

_DISCOVERY, _CPU, _MEMORY = "pod discovery", "pod cpu", "pod memory"
"""Names of the sources, in statistics and in `NoData`."""

_ORDINARY = (NoRate.FIRST_READING, NoRate.OTHER_COUNTER)
"""Reasons that belong to the life of a group and tell of no fault."""


@dataclass(frozen=True, slots=True)
class PodMeasurements:
    """What one tick learnt of the pods."""

    pods: Mapping[str, UsageSample] = field(default_factory=dict)
    containers: Mapping[str, UsageSample] = field(default_factory=dict)
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
        self._groups: dict[str, CgroupReader] = {}
        self._followed: DiscoveredGroups | None = None
        self._named_containers: frozenset[str] | None = None
        self._containers_of_pod: dict[str, dict[str, str]] = {}
        self._pods_before: frozenset[str] = frozenset()
        self._no_data: list[NoData] = []

    def collect(self, cpu_count: int | None = None, named_containers: frozenset[str] | None = None) -> PodMeasurements:
        """Read every group once. `named_containers` limits the containers that are read; None reads all."""
        with self._statistics.timed(_DISCOVERY):
            found = self._discovery.refresh(self._monotonic_ns() / 1e9)
            if isinstance(found, NoData):
                self._statistics.failed(_DISCOVERY)
                self.close()
                return PodMeasurements(no_data=(found,))
            self._follow(found, named_containers)
        self._no_data = []
        with self._statistics.timed(_CPU):
            readings = self._read(_CPU, self._groups, lambda group: group.cpu_cores(self._monotonic_ns, cpu_count))
        rates = self._rates(readings)
        with self._statistics.timed(_MEMORY):
            memory = self._read(_MEMORY, rates, CgroupReader.memory_bytes)
        return self._measurements(found, {path: UsageSample(rates[path], float(used)) for path, used in memory.items()})

    def close(self) -> None:
        """Close every file; a later tick begins anew."""
        for group in self._groups.values():
            group.close()
        self._groups.clear()
        self._followed = None

    def _follow(self, found: DiscoveredGroups, named_containers: frozenset[str] | None) -> None:
        if found is self._followed and named_containers == self._named_containers:
            return
        self._followed, self._named_containers = found, named_containers
        self._containers_of_pod = {
            uid: {
                container: path
                for container, path in pod.containers.items()
                if named_containers is None or container in named_containers
            }
            for uid, pod in found.pods.items()
        }
        paths = {pod.path for pod in found.pods.values()}
        paths.update(path for containers in self._containers_of_pod.values() for path in containers.values())
        for path in self._groups.keys() - paths:
            self._groups.pop(path).close()
        for path in paths - self._groups.keys():
            self._groups[path] = CgroupReader(found.layout, path, self._budget)

    def _read(self, source: str, paths: Iterable[str], read: Callable[[CgroupReader], _T]) -> dict[str, _T]:
        values: dict[str, _T] = {}
        failures: dict[str, OSError | ValueError] = {}
        for path in paths:
            try:
                values[path] = read(self._groups[path])
            except (OSError, ValueError) as failure:
                failures[path] = failure
        for path, problem in failures.items():
            self._judge(source, path, problem)
        return values

    def _judge(self, source: str, path: str, problem: OSError | ValueError) -> None:
        """Take a failed read for the end of the group or for a fault."""
        group = self._groups[path]
        if group.is_gone_by(problem):
            group.close()
            del self._groups[path]
            self._discovery.look_again(path)
        else:
            reason = problem.strerror if isinstance(problem, OSError) else None
            self._fault(source, group, reason or str(problem))

    def _fault(self, source: str, group: CgroupReader, reason: str) -> None:
        file = group.cpu_file if source == _CPU else group.memory_file
        self._statistics.failed(source)
        self._no_data.append(NoData(source, file.path, reason))

    def _rates(self, readings: Mapping[str, float | NoRate]) -> dict[str, float]:
        """Keep the rates; report the missing ones that tell of a fault."""
        rates: dict[str, float] = {}
        for path, rate in readings.items():
            if not isinstance(rate, NoRate):
                rates[path] = rate
            elif rate not in _ORDINARY:
                self._fault(_CPU, self._groups[path], rate.value)
        return rates

    def _measurements(self, found: DiscoveredGroups, samples: Mapping[str, UsageSample]) -> PodMeasurements:
        pods = {uid: samples[pod.path] for uid, pod in found.pods.items() if pod.path in samples}
        unmeasured = found.pods.keys() - pods.keys()
        here = frozenset(uid for uid, pod in found.pods.items() if pod.path in self._groups)
        complete = not unmeasured and self._pods_before <= here
        self._pods_before = here
        self._statistics.groups = len(self._groups)
        self._statistics.descriptors_kept = self._budget.kept
        return PodMeasurements(
            pods=pods,
            containers={
                container: samples[path]
                for containers in self._containers_of_pod.values()
                for container, path in containers.items()
                if path in samples
            },
            containers_of_pod={uid: tuple(containers) for uid, containers in self._containers_of_pod.items()},
            unmeasured_pods=frozenset(unmeasured),
            complete=complete,
            no_data=tuple(self._no_data),
        )
