"""Usage of every NUMA node of a machine with several, read every `NUMA_TICKS` ticks.

A machine with one node pays only for listing one folder; its NUMA usage would equal the node's own. A CPU rate covers
the time between two readings, so nothing that ran is missed. The kernel takes a millisecond to print /proc/stat on a
large machine, so it is read once for all nodes.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final, Self, TypeVar

from koordlet.collectors.cgroup.discovery import FollowedGroups
from koordlet.collectors.host_root import HostRoot
from koordlet.collectors.interface import NO_SERIES, Collector, Host, RingShape, Tick
from koordlet.collectors.numa import attribution
from koordlet.collectors.numa import files as numa_files
from koordlet.collectors.numa.attribution import CpuTimes, NumaMeasurement
from koordlet.collectors.statistics import CollectStatistics
from koordlet.samples import NoData, SeriesKey, SeriesKind, UsageSample

_T = TypeVar("_T")

NUMA_TICKS: Final = 10
_SOURCE: Final = "NUMA usage"
_GROUP_IS_GONE: Final = (errno.ENOENT, errno.ENODEV)
_FEWEST_NODES: Final = 2
_MOST_NODES: Final = 64
"""Upper bound of the NUMA nodes of a machine; the cache refuses series beyond it."""


class NumaCollector(Collector):
    """Usage of each NUMA node from reading to reading. Machines with less than `fewest_nodes` nodes are not read."""

    name: ClassVar[str] = _SOURCE
    ring: ClassVar[RingShape | None] = RingShape(interval_ticks=NUMA_TICKS, max_series=2 * _MOST_NODES)

    def __init__(
        self,
        host_root: HostRoot,
        statistics: CollectStatistics,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        fewest_nodes: int = _FEWEST_NODES,
    ) -> None:
        self.no_data: tuple[NoData, ...] = ()
        """Problems of the last reading."""
        self._folder = host_root.numa_root
        self._stat = host_root.proc_root / "stat"
        self._statistics = statistics
        self._monotonic_ns = monotonic_ns
        self._fewest_nodes = fewest_nodes
        self._before: CpuTimes | None = None
        self._wrong: list[NoData] = []
        self._ticks = 0
        self._tick_nanoseconds = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    @classmethod
    def on(cls, host: Host) -> Self:
        """Construct the collector for a host."""
        return cls(host.root, host.statistics, host.monotonic_ns)

    def collect(self, tick: Tick) -> Mapping[SeriesKey, UsageSample]:
        """Return the usage of each NUMA node and of its share of the system, when it is time to read them."""
        measured = self.measure(tick.groups if tick.are_pods_complete else None)
        tick.no_data += self.no_data
        return NO_SERIES if measured is None else _series(measured, tick.system)

    def measure(self, groups: FollowedGroups | None) -> NumaMeasurement | None:
        """Read everything when it is time; None when it is not, or there is only one node.

        `groups` are those of all pods, None while a pod is unmeasured: no difference is computed then.
        """
        self._ticks += 1
        if (self._ticks - 1) % NUMA_TICKS:
            return None
        nodes = self._nodes()
        self._statistics.source(_SOURCE).supported = len(nodes) >= self._fewest_nodes
        if len(nodes) < self._fewest_nodes:
            self.no_data, self._before = (), None
            return None
        self._wrong = []
        with self._statistics.timed(_SOURCE):
            measured = self._read_all(nodes, groups)
        self._statistics.failed(_SOURCE, len(self._wrong))
        self.no_data = tuple(self._wrong)
        return measured

    def _nodes(self) -> Mapping[int, Path]:
        """Return the folders of the nodes by number; none on a kernel without NUMA support."""
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - only names are needed
        except OSError:
            return {}
        nodes = [name for name in names if name.startswith("node") and name[4:].isdigit()]
        return {int(name[4:]): self._folder / name for name in nodes}

    def _read_all(self, nodes: Mapping[int, Path], groups: FollowedGroups | None) -> NumaMeasurement:
        times = self._cpu_times()
        cpus = {node: self._read(folder / "cpulist", numa_files.cpus) for node, folder in nodes.items()}
        cpus_by_node = {node: members for node, members in cpus.items() if members is not None}
        cores = {} if times is None else attribution.cpu_cores(self._before, times, cpus_by_node)
        self._before = times
        memory = {node: self._read(folder / "meminfo", numa_files.used_bytes) for node, folder in nodes.items()}
        return NumaMeasurement(
            cpu_cores=cores,
            memory_bytes={node: used for node, used in memory.items() if used is not None},
            pods_memory_bytes=None if groups is None else self._pods_memory(groups),
            nodes=frozenset(nodes),
        )

    def _cpu_times(self) -> CpuTimes | None:
        ticks = self._read(self._stat, numa_files.busy_ticks)
        if ticks is None:
            return None
        return CpuTimes(
            {cpu: busy_ticks * self._tick_nanoseconds for cpu, busy_ticks in ticks.items()}, self._monotonic_ns()
        )

    def _pods_memory(self, groups: FollowedGroups) -> dict[int, int] | None:
        """Return the sum over the pods; a pod that ended since its discovery has no memory."""
        mount = groups.layout.memory
        total: dict[int, int] = {}
        for group, *_containers in groups.pods.values():
            path = mount.path / group / "memory.numa_stat"
            try:
                of_pod = numa_files.group_bytes(path.read_bytes(), mount.version, self._page_bytes)
            except (OSError, ValueError) as problem:
                if isinstance(problem, OSError) and problem.errno in _GROUP_IS_GONE and not path.parent.is_dir():
                    continue
                self._fault(path, problem)
                return None
            for node, used in of_pod.items():
                total[node] = total.get(node, 0) + used
        return total

    def _read(self, path: Path, parse: Callable[[bytes], _T]) -> _T | None:
        try:
            return parse(path.read_bytes())
        except (OSError, ValueError) as problem:
            self._fault(path, problem)
            return None

    def _fault(self, path: Path, problem: OSError | ValueError) -> None:
        strerror = problem.strerror if isinstance(problem, OSError) else None
        self._wrong.append(NoData(_SOURCE, str(path), strerror or str(problem)))


def _series(measured: NumaMeasurement, system: UsageSample | None) -> dict[SeriesKey, UsageSample]:
    series = {}
    for number, sample in attribution.samples(measured, system).items():
        series[SeriesKey(SeriesKind.NUMA_NODE, str(number))] = sample.node
        if sample.system is not None:
            series[SeriesKey(SeriesKind.NUMA_SYSTEM, str(number))] = sample.system
    return series
