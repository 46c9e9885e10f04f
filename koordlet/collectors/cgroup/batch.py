"""Groups measured in the same tick: first the CPU counters of all of them, then their memory.

The kernel takes twice as long to print a memory file as a CPU counter, and memory changes slowly. So the memory of a
group may be read in every n-th tick only, in turns; the others repeat their last value.

Groups that ended are removed, and their paths are in `ended` for the discovery. Groups that cannot be read remain;
`no_data` has the problems of the last reading, and `partial` the groups that have no memory group.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from koordlet.collectors import rates
from koordlet.collectors.cgroup import files as cgroup_files
from koordlet.collectors.cgroup.discovery import CgroupLayout
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.open_files import BUFFER_BYTES, CachedFile, DescriptorBudget
from koordlet.collectors.rates import NoRate
from koordlet.samples import NoData, UsageSample


class CgroupReader:
    """Usage of one group, a pod's or a container's. Reads raise OSError, or ValueError for unexpected text."""

    __slots__ = (
        "_at_nanoseconds",
        "_counter",
        "_cpu_buffer_bytes",
        "_cpu_nanoseconds",
        "_folder",
        "_memory_folder",
        "_parse_cpu",
        "_parse_memory",
        "_parse_memory_with_page_cache",
        "cpu_file",
        "memory_file",
        "path",
    )

    def __init__(self, layout: CgroupLayout, path: str, budget: DescriptorBudget) -> None:
        cpu = cgroup_files.CPU_FILES[layout.cpu.version]
        memory = cgroup_files.MEMORY_FILES[layout.memory.version]
        self.path = path
        self._folder = layout.cpu.path / path
        self.cpu_file = CachedFile(str(self._folder / cpu.name), budget)
        self._memory_folder = layout.memory.path / path
        self.memory_file = CachedFile(str(self._memory_folder / memory.name), budget)
        self._parse_cpu = cpu.parse
        self._cpu_buffer_bytes = cpu.most_bytes or BUFFER_BYTES
        self._parse_memory = memory.parse
        self._parse_memory_with_page_cache = cgroup_files.PAGE_CACHE_PARSERS[layout.memory.version]
        self._counter: int | None = None
        """Inode of the CPU file of the previous reading; None before the first."""
        self._cpu_nanoseconds = self._at_nanoseconds = 0

    def cpu_cores(self, monotonic_ns: Callable[[], int], cpu_count: int | None) -> float | NoRate:
        """Read the CPU counter; return the rate since its previous reading."""
        file = self.cpu_file
        text = file.read() if file.descriptor is None else os.pread(file.descriptor, self._cpu_buffer_bytes, 0)
        counter, cpu_nanoseconds, at_nanoseconds = file.inode, self._parse_cpu(text), monotonic_ns()
        before, self._counter = self._counter, counter
        used, self._cpu_nanoseconds = cpu_nanoseconds - self._cpu_nanoseconds, cpu_nanoseconds
        elapsed, self._at_nanoseconds = at_nanoseconds - self._at_nanoseconds, at_nanoseconds
        if before == counter:
            return rates.cores_between(used, elapsed, cpu_count)
        return NoRate.FIRST_READING if before is None else NoRate.OTHER_COUNTER

    def memory_bytes(self, counts_page_cache: bool = False, counts_swap: bool = False) -> int:
        """Read the memory in use, with or without page cache, and with what is swapped out."""
        parse = self._parse_memory_with_page_cache if counts_page_cache else self._parse_memory
        file = self.memory_file
        text = file.read() if file.descriptor is None else os.pread(file.descriptor, BUFFER_BYTES, 0)
        return parse(text) + (cgroup_files.swapped_bytes(text, self._memory_folder) if counts_swap else 0)

    def is_gone_by(self, failure: Exception) -> bool:
        """Return whether a failed read means that the group ended, and not that its files are unreadable."""
        code = failure.errno if isinstance(failure, OSError) else None
        return code == errno.ENODEV or (code == errno.ENOENT and not self._folder.is_dir())

    def lacks_memory_group(self, failure: Exception) -> bool:
        """Return whether a failed read of memory means that the group is missing there and exists for the CPU.

        So it is in v1 for a moment while a pod ends, and for good where a group was not cleaned up.
        """
        code = failure.errno if isinstance(failure, OSError) else None
        return code == errno.ENOENT and not self._memory_folder.is_dir()

    def close(self) -> None:
        """Close both files."""
        self.cpu_file.close()
        self.memory_file.close()


CPU, MEMORY = "pod cpu", "pod memory"
"""Names of the sources, in statistics and in `NoData`."""

_ORDINARY = (NoRate.FIRST_READING, NoRate.OTHER_COUNTER)
"""Reasons that are normal in the life of a group."""

_NO_MEMORY_GROUP = "the pod has a group in the hierarchy of the CPU and none in that of the memory"


class _Memory(NamedTuple):
    used_bytes: int
    due: int
    """Number of the reading that reads it again."""


class CgroupBatch:
    """Readers of some groups, by UID or container id. Memory is read in every `memory_ticks`-th reading."""

    def __init__(self, statistics: CollectStatistics, memory_ticks: int = 1) -> None:
        self.readers: dict[str, CgroupReader] = {}
        self.no_data: dict[str, NoData] = {}
        """Problems of the last reading, by UID or container id."""
        self.partial: dict[str, NoData] = {}
        """Groups that the last reading found without a memory group: not a fault while a pod ends."""
        self.ended: list[str] = []
        """Paths of the groups that had ended at the last reading."""
        self._statistics = statistics
        self._memory_ticks = memory_ticks
        self._memory: dict[str, _Memory] = {}
        self._counts_page_cache = False
        self._readings = 0

    def keep_only(self, paths: Mapping[str, str]) -> None:
        """Close the readers of all other groups."""
        for identity, reader in list(self.readers.items()):
            if paths.get(identity) != reader.path:
                self._drop(identity)

    def cpu_cores(self, monotonic_ns: Callable[[], int], cpu_count: int | None) -> dict[str, float]:
        """Read the CPU counters; return the rates since the previous reading, where there is one."""
        self.no_data.clear()
        self.partial.clear()
        self.ended.clear()
        rates: dict[str, float] = {}
        failed: dict[str, Exception] = {}
        for identity, reader in self.readers.items():
            try:
                rate = reader.cpu_cores(monotonic_ns, cpu_count)
            except (OSError, ValueError) as problem:
                failed[identity] = problem
                continue
            if not isinstance(rate, NoRate):
                rates[identity] = rate
            elif rate not in _ORDINARY:
                self._fault(identity, CPU, reader.cpu_file.path, rate.value)
        self._settle(CPU, failed)
        return rates

    def usage(
        self,
        rates: Mapping[str, float],
        machine_bytes: int | None,
        counts_page_cache: bool = False,
        *,
        swap_bytes: int = 0,
    ) -> dict[str, UsageSample]:
        """Return CPU and memory, with or without page cache and swap, of the groups that have a CPU rate.

        `machine_bytes` and `swap_bytes` bound valid values (kernels have printed counts below zero as nearly 2^64);
        None sets no bound. Where there is no swap it is not read.
        """
        samples: dict[str, UsageSample] = {}
        failed: dict[str, Exception] = {}
        self._readings += 1
        if counts_page_cache is not self._counts_page_cache:
            self._counts_page_cache = counts_page_cache
            self._memory.clear()
        for identity, rate in rates.items():
            memory = self._memory.get(identity)
            try:
                if memory is not None and self._readings < memory.due:
                    used_bytes = memory.used_bytes
                else:
                    used_bytes = self._read_memory(identity, memory, swap_bytes > 0)
            except (OSError, ValueError) as problem:
                failed[identity] = problem
                continue
            if machine_bytes is None or used_bytes <= machine_bytes + swap_bytes:
                samples[identity] = UsageSample(rate, float(used_bytes))
            else:
                reason = f"{used_bytes} bytes in use, want at most the machine's {machine_bytes}"
                self._fault(identity, MEMORY, self.readers[identity].memory_file.path, reason)
        self._settle(MEMORY, failed)
        return samples

    def _read_memory(self, identity: str, before: _Memory | None, counts_swap: bool) -> int:
        self._memory.pop(identity, None)
        used_bytes = self.readers[identity].memory_bytes(self._counts_page_cache, counts_swap)
        # Groups that are read for the first time together take different turns.
        wait = self._memory_ticks if before is not None else 1 + len(self._memory) % self._memory_ticks
        self._memory[identity] = _Memory(used_bytes, self._readings + wait)
        return used_bytes

    def _settle(self, source: str, failed: Mapping[str, Exception]) -> None:
        """Remove the readers of ended groups and record errors of the rest."""
        for identity, problem in failed.items():
            reader = self.readers[identity]
            if reader.is_gone_by(problem):
                self.ended.append(reader.path)
                self._drop(identity)
                continue
            if source == MEMORY and reader.lacks_memory_group(problem):
                self.partial[identity] = NoData(MEMORY, reader.memory_file.path, _NO_MEMORY_GROUP)
                continue
            file = reader.cpu_file if source == CPU else reader.memory_file
            strerror = problem.strerror if isinstance(problem, OSError) else None
            self._fault(identity, source, file.path, strerror or str(problem))

    def _fault(self, identity: str, source: str, path: str, reason: str) -> None:
        self._statistics.failed(source)
        self.no_data[identity] = NoData(source, path, reason)

    def _drop(self, identity: str) -> None:
        self._memory.pop(identity, None)
        self.readers.pop(identity).close()
