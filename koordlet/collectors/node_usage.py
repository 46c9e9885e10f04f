"""CPU and memory of the whole node, from the host's /proc.

CPU is the time not spent idle or waiting for I/O: user + nice + system + irq + softirq + steal. What the hypervisor
steals is left to no pod, and counts as used by the system: a machine without idle time is full.
Memory is MemTotal - MemAvailable, and with page cache MemTotal - MemFree, both without the pools of huge pages: the
kernel keeps a pool out of MemAvailable, used or not, and the kubelet out of what pods may request. What is swapped out
is used as well: its owner needs it. (`guest` time is part of `user`, and counted there.)

A tick reads the two files itself, because psutil parses every line: 0.3 ms with the cold caches of a process that runs
once a second, and 1 MiB of the agent.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple, Self, TypeVar

from koordlet.collectors import rates
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.interface import NO_SERIES, Collector, Host, Tick
from koordlet.collectors.open_files import CachedFile, DescriptorBudget
from koordlet.collectors.rates import NoRate
from koordlet.samples import NoData, SeriesKey, UsageSample

_SOURCE = "node usage"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_NO_DESCRIPTORS = DescriptorBudget(0)
_MEMORY_LINE = re.compile(rb"(Mem\w+|Swap\w+|Huge\w+): *(\S+)(?: kB)?\n")

_ARC_LINE = re.compile(rb"^(size|c_min) +4 +(\d{1,18})$", re.MULTILINE)

_T = TypeVar("_T")


class NodeMemory(NamedTuple):
    """Memory of the node, in bytes, without the pools of huge pages."""

    total_bytes: int
    available_bytes: int
    free_bytes: int
    swap_bytes: int = 0
    """Size of the swap."""
    swapped_bytes: int = 0
    """Memory that is in the swap alone."""

    @property
    def usage_bytes(self) -> int:
        """Memory in use that cannot be freed without swapping."""
        return self.total_bytes - self.available_bytes + self.swapped_bytes

    @property
    def usage_with_page_cache_bytes(self) -> int:
        """Memory in use including the page cache."""
        return self.total_bytes - self.free_bytes + self.swapped_bytes


class MachineFacts(NamedTuple):
    """CPUs and memory of the machine."""

    cpu_count: int
    """Number of online CPUs."""
    memory_bytes: int
    """MemTotal without the pools of huge pages."""


class UnreadableProc(Exception):
    """A file of the host's /proc is missing or has an unexpected format. Callers turn it into `NoData`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def busy_cpu_seconds(proc_root: Path) -> float:
    """Return the time since boot that all CPUs spent working or stolen, a whole number of clock ticks."""
    return _read(f"{proc_root}/stat", _busy_seconds, "a first line of ten CPU times")


def memory(proc_root: Path) -> NodeMemory:
    """Return the node's memory."""
    return _read(f"{proc_root}/meminfo", _memory, "MemTotal, MemFree and MemAvailable in kB")


def cache_problem(proc_root: Path) -> str | None:
    """Describe a cache of ZFS (ARC) that is a quarter of the memory in use: the kernel does not call it available."""
    try:
        sizes = dict(_ARC_LINE.findall((proc_root / "spl/kstat/zfs/arcstats").read_bytes()))
        cached, used = int(sizes[b"size"]) - int(sizes[b"c_min"]), memory(proc_root).usage_bytes
    except (OSError, KeyError, UnreadableProc):
        return None
    text = f"of {used / 2**30:.1f} GiB in use ZFS' cache (ARC) can give {cached / 2**30:.1f} GiB back"
    return text if cached * 4 > used else None


def machine_facts(proc_root: Path) -> MachineFacts | None:
    """Return CPUs and memory of the machine, None when its /proc cannot be read."""
    try:
        cpu_count = (proc_root / "stat").read_bytes().count(b"\ncpu")
        return MachineFacts(cpu_count, memory(proc_root).total_bytes) if cpu_count else None
    except (UnreadableProc, OSError):
        return None


def _read(path: str, parse: Callable[[bytes], _T], form: str) -> _T:
    try:
        return parse(CachedFile(path, _NO_DESCRIPTORS).read())
    except OSError as problem:
        raise UnreadableProc(path, problem.strerror or str(problem)) from problem
    except (KeyError, ValueError) as problem:
        raise UnreadableProc(path, f"{problem}; want {form}") from problem


def _busy_seconds(text: bytes) -> float:
    name, *columns = text.partition(b"\n")[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, columns[:8])
    busy = (user, nice, system, irq, softirq, steal)
    if name != b"cpu" or min(busy) < 0:
        raise ValueError(f"the line of {name.decode(errors='replace')!r} has the working times {busy}")
    return sum(busy) / _TICKS_PER_SECOND


def _memory(text: bytes) -> NodeMemory:
    sizes = {name: int(size) for name, size in _MEMORY_LINE.findall(text)}
    total, available, free = (sizes[name] << 10 for name in (b"MemTotal", b"MemAvailable", b"MemFree"))
    # kernels before 4.20 count pages of the default size only
    pools = sizes.get(b"Hugetlb", sizes.get(b"HugePages_Total", 0) * sizes.get(b"Hugepagesize", 0)) << 10
    total -= pools
    if not 0 <= available <= total or total == 0:
        raise ValueError(f"{available} bytes are available of {total} beside {pools} in huge pages")
    swap, *in_memory = (sizes.get(name, 0) << 10 for name in (b"SwapTotal", b"SwapFree", b"SwapCached"))
    return NodeMemory(total, available, free, swap, max(swap - sum(in_memory), 0))


class NodeUsageCollector(Collector):
    """Usage of the node from tick to tick. Without a CPU rate there is no sample, not even of memory."""

    name: ClassVar[str] = _SOURCE

    def __init__(
        self, proc_root: Path, statistics: CollectStatistics, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._proc_root = proc_root
        self._statistics = statistics
        self._monotonic_ns = monotonic_ns
        self._before: tuple[int, int] | None = None
        """Busy time of the CPUs and monotonic time of the previous reading, in nanoseconds."""

    @classmethod
    def on(cls, host: Host) -> Self:
        """Construct the collector for a host."""
        return cls(host.root.proc_root, host.statistics, host.monotonic_ns)

    def collect(self, tick: Tick) -> Mapping[SeriesKey, UsageSample]:
        """Read the node once. Add both resources to the tick or neither."""
        with self._statistics.timed(_SOURCE):
            try:
                now = round(busy_cpu_seconds(self._proc_root) * 1e9), self._monotonic_ns()
                used = memory(self._proc_root)
            except UnreadableProc as problem:
                self._fault(tick, problem.path, problem.reason)
                return NO_SERIES
        tick.swap_bytes = used.swap_bytes
        before, self._before = self._before, now
        if before is None:
            return NO_SERIES
        rate = rates.cores_between(now[0] - before[0], now[1] - before[1], tick.cpu_count)
        if not isinstance(rate, NoRate):
            used_bytes = used.usage_with_page_cache_bytes if tick.counts_page_cache else used.usage_bytes
            tick.node = UsageSample(rate, float(used_bytes))
        else:
            self._fault(tick, f"{self._proc_root}/stat", rate.value)
        return NO_SERIES

    def _fault(self, tick: Tick, path: str, reason: str) -> None:
        self._statistics.failed(_SOURCE)
        tick.no_data.append(NoData(_SOURCE, path, reason))
