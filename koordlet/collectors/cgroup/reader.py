"""Reader of the two files of one cgroup."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from koordlet.collectors import rates
from koordlet.collectors.cgroup import files as cgroup_files
from koordlet.collectors.cgroup.layout import CgroupLayout
from koordlet.collectors.open_files import BUFFER_BYTES, CachedFile, DescriptorBudget
from koordlet.collectors.rates import NoRate


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

    def memory_bytes(self, counts_page_cache: bool = False) -> int:
        """Read the memory in use, with or without page cache."""
        parse = self._parse_memory_with_page_cache if counts_page_cache else self._parse_memory
        file = self.memory_file
        return parse(file.read() if file.descriptor is None else os.pread(file.descriptor, BUFFER_BYTES, 0))

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
