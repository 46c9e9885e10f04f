"""Usage of every NUMA node of a machine with several, read every `NUMA_TICKS` ticks.

A machine with one node pays only for listing one folder; its NUMA usage would equal the node's own. A CPU rate covers
the time between two readings, so nothing that ran is missed. The kernel takes a millisecond to print /proc/stat on a
large machine, so it is read once for all nodes.

```
cpu(i)            = sum of the rates of the CPUs of node i
system cpu(i)     = system cpu * cpu(i) / sum of cpu(j) over all nodes j        0 where nothing ran
system memory(i)  = max(memory(i) - memory of all pods on node i, 0)
```

The kernel does not record the node on which a pod's CPU time was spent, so the system's CPU is split in proportion to
the CPU of the nodes. A node without valid counters is omitted. If any node or pod could not be read, the system's share
is omitted for all nodes. The formulas are those of Koordinator's agent.

| cpulist                     | "0-3,8": the CPUs of one node that are online; nothing for a node of memory only    |
| /proc/stat                  | one line of ticks a CPU                                                             |
| nodeN/meminfo               | used = MemTotal - (MemFree + Active(file) + Inactive(file) + SReclaimable), from 0  |
| nodeN/hugepages/*kB         | nr_hugepages: pages in the pool of one size, which are not used memory              |
| a group's memory.numa_stat  | v1: pages of hierarchical_anon and hierarchical_unevictable by node                 |
|                             | v2: bytes of inactive_anon, active_anon and unevictable by node                     |

The keys of memory.numa_stat are those that make up the usage of a pod (`cgroup.files`). Parsers take bytes and raise
ValueError with the missing keys: absent is not zero. Sources: Koordinator's agent and the kernel's cgroup pages.
"""

from __future__ import annotations

import errno
import math
import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Self, TypeVar

from api_types.kubernetes import cpu_list
from koordlet.collectors import rates as counter_rates
from koordlet.collectors.cgroup.discovery import FollowedGroups
from koordlet.collectors.cgroup.files import CgroupVersion
from koordlet.collectors.host import CollectStatistics, HostRoot
from koordlet.collectors.interface import NO_SERIES, Collector, Host, RingShape, Tick
from koordlet.collectors.rates import NoRate
from koordlet.samples import NoData, NumaSample, SeriesKey, SeriesKind, UsageSample


class CpuTimes(NamedTuple):
    """CPU time that every CPU has worked since boot, at one instant."""

    nanoseconds: Mapping[int, int]
    """By number of the CPU; offline CPUs are missing."""
    at_nanoseconds: int
    """Monotonic time of the read."""


@dataclass(frozen=True, slots=True)
class NumaMeasurement:
    """Result of one reading; nodes without a value are missing."""

    cpu_cores: Mapping[int, float] = field(default_factory=dict)
    memory_bytes: Mapping[int, int] = field(default_factory=dict)
    pods_memory_bytes: Mapping[int, int] | None = None
    """Sum over all pods; None when a pod could not be read."""
    nodes: Collection[int] = ()
    """All nodes of the machine."""


def cpu_cores(before: CpuTimes | None, now: CpuTimes, cpus_of_node: Mapping[int, Collection[int]]) -> dict[int, float]:
    """Return the mean number of cores in use on each node between two readings.

    A node is missing if one of its CPUs came online since, or its counter went back. A node without CPUs uses 0.
    """
    if before is None or now.at_nanoseconds <= before.at_nanoseconds:
        return {}
    cores = {}
    for node, cpus in cpus_of_node.items():
        passed = now.at_nanoseconds - before.at_nanoseconds
        rates = [
            counter_rates.cores_between(now.nanoseconds[cpu] - before.nanoseconds[cpu], passed, 1)
            for cpu in cpus
            if cpu in before.nanoseconds and cpu in now.nanoseconds
        ]
        valid_rates = [rate for rate in rates if not isinstance(rate, NoRate)]
        if len(valid_rates) == len(cpus):
            cores[node] = math.fsum(valid_rates)
    return cores


def system_cpu_cores(system_cpu_cores: float, cpu_cores_of_node: Mapping[int, float]) -> dict[int, float]:
    """Split the system's CPU in proportion to the CPU of all nodes."""
    total = math.fsum(cpu_cores_of_node.values())
    return {node: system_cpu_cores * used / total if total else 0.0 for node, used in cpu_cores_of_node.items()}


def system_memory_bytes(
    memory_bytes_of_node: Mapping[int, int], pods_memory_bytes: Mapping[int, int] | None
) -> dict[int, int]:
    """Return the memory of each node less that of its pods; nothing where the pods' memory is unknown."""
    if pods_memory_bytes is None:
        return {}
    return {node: max(used - pods_memory_bytes.get(node, 0), 0) for node, used in memory_bytes_of_node.items()}


def samples(measured: NumaMeasurement, system: UsageSample | None) -> dict[int, NumaSample]:
    """Return both resources of each node or neither, and both of its system share or neither.

    `system` is the usage of the system on the whole machine at the same instant, None while unknown.
    """
    system_cpu, system_memory = {}, {}
    if system is not None and measured.cpu_cores.keys() == set(measured.nodes):
        system_cpu = system_cpu_cores(system.cpu_cores, measured.cpu_cores)
        system_memory = system_memory_bytes(measured.memory_bytes, measured.pods_memory_bytes)
    return {
        node: NumaSample(
            node=UsageSample(measured.cpu_cores[node], float(measured.memory_bytes[node])),
            system=UsageSample(system_cpu[node], float(system_memory[node])) if node in system_memory else None,
        )
        for node in sorted(measured.cpu_cores.keys() & measured.memory_bytes.keys())
    }


_CPU_LINE: Final = re.compile(rb"^cpu(\d+) (\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+) (\d+)", re.MULTILINE)
"""Groups: the number of the CPU; user, nice, system, irq, softirq, steal. Idle and iowait are before irq."""
_MEMINFO_LINE: Final = re.compile(rb"^Node \d+ (\S+):\s+(\d+) kB$", re.MULTILINE)
_FREE: Final = (b"MemFree", b"Active(file)", b"Inactive(file)", b"SReclaimable")
_AMOUNT: Final = re.compile(rb"N(\d+)=(\d+)")


def _line_pattern(keys: tuple[bytes, ...], total: bytes) -> tuple[re.Pattern[bytes], tuple[bytes, ...]]:
    """Return a pattern of the lines with these keys; its groups are the key and the amounts by node."""
    return re.compile(rb"^(%s)%s((?: N\d+=\d+)+)$" % (b"|".join(keys), total), re.MULTILINE), keys


_GROUP_LINES: Final = {
    CgroupVersion.V1: _line_pattern((b"hierarchical_anon", b"hierarchical_unevictable"), rb"=\d+"),
    CgroupVersion.V2: _line_pattern((b"inactive_anon", b"active_anon", b"unevictable"), b""),
}


def cpus(cpulist: bytes) -> frozenset[int]:
    """Return the CPUs in a list of numbers and ranges; none for an empty list."""
    return frozenset().union(*cpu_list.ranges(cpulist.decode(errors="replace")))


def busy_ticks(stat: bytes) -> dict[int, int]:
    """Return the ticks that each online CPU spent working or stolen since boot: all but idle and iowait."""
    ticks_by_cpu = {int(cpu): sum(map(int, ticks)) for cpu, *ticks in _CPU_LINE.findall(stat)}
    if not ticks_by_cpu:
        raise ValueError(f"no line with the times of a single CPU, got {stat[:40]!r}")
    return ticks_by_cpu


def used_bytes(meminfo: bytes) -> int:
    """Return the memory of one node that is in use and cannot be freed by dropping caches."""
    sizes = {key: int(kilobytes) * 1024 for key, kilobytes in _MEMINFO_LINE.findall(meminfo)}
    missing = [key.decode() for key in (b"MemTotal", *_FREE) if key not in sizes]
    if missing:
        raise ValueError(f"no size in kB of {', '.join(missing)}")
    return max(sizes[b"MemTotal"] - sum(sizes[key] for key in _FREE), 0)


def group_bytes(numa_stat: bytes, version: CgroupVersion, page_bytes: int) -> dict[int, int]:
    """Return the memory of one cgroup by node, without page cache; v1 counts it in pages of `page_bytes`."""
    line, keys = _GROUP_LINES[version]
    lines = line.findall(numa_stat)
    missing = [key.decode() for key in keys if key not in {key for key, _amounts in lines}]
    if missing:
        raise ValueError(f"memory.numa_stat has no line of {', '.join(missing)} with N<node>=<number> of every node")
    unit = page_bytes if version is CgroupVersion.V1 else 1
    used: dict[int, int] = {}
    for _key, amounts in lines:
        for node, amount in _AMOUNT.findall(amounts):
            used[int(node)] = used.get(int(node), 0) + int(amount) * unit
    return used


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
        if measured is None:
            return NO_SERIES
        series = {}
        for number, sample in samples(measured, tick.system).items():
            series[SeriesKey(SeriesKind.NUMA_NODE, str(number))] = sample.node
            if sample.system is not None:
                series[SeriesKey(SeriesKind.NUMA_SYSTEM, str(number))] = sample.system
        return series

    def measure(self, groups: FollowedGroups | None) -> NumaMeasurement | None:
        """Read everything when it is time; None when it is not, or there is only one node.

        `groups` are those of all pods, None while a pod is unmeasured: no difference is computed then.
        """
        self._ticks += 1
        if (self._ticks - 1) % NUMA_TICKS:
            return None
        nodes = self._nodes()
        self._statistics.sources[_SOURCE].supported = len(nodes) >= self._fewest_nodes
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
        online = {node: self._read(folder / "cpulist", cpus) for node, folder in nodes.items()}
        cpus_by_node = {node: members for node, members in online.items() if members is not None}
        cores = {} if times is None else cpu_cores(self._before, times, cpus_by_node)
        self._before = times
        memory = {node: self._read(folder / "meminfo", used_bytes) for node, folder in nodes.items()}
        pools = {node: self._huge_page_bytes(folder) for node, folder in nodes.items()}
        return NumaMeasurement(
            cpu_cores=cores,
            memory_bytes={node: max(used - pools[node], 0) for node, used in memory.items() if used is not None},
            pods_memory_bytes=None if groups is None else self._pods_memory(groups),
            nodes=frozenset(nodes),
        )

    def _huge_page_bytes(self, folder: Path) -> int:
        """Return the size of the pools of huge pages on one node; a pool that cannot be read counts as used memory."""
        pools = folder.glob("hugepages/hugepages-*kB")
        return sum(
            (self._read(pool / "nr_hugepages", int) or 0) * int(pool.name.removeprefix("hugepages-")[:-2]) << 10
            for pool in pools
        )

    def _cpu_times(self) -> CpuTimes | None:
        ticks = self._read(self._stat, busy_ticks)
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
                of_pod = group_bytes(path.read_bytes(), mount.version, self._page_bytes)
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
