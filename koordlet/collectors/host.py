"""The host as collectors see it: its folders, and cost and failures of reading it, as plain numbers for /metrics."""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostRoot:
    """Folders of one host as this process sees them."""

    proc_root: Path
    """The host's `/proc`, for example `/host/proc`."""
    cgroup_root: Path
    """The host's `/sys/fs/cgroup`, for example `/host/sys/fs/cgroup`."""
    numa_root: Path = Path("/sys/devices/system/node")
    """The folder of NUMA nodes. Missing on a kernel without NUMA support."""

    @classmethod
    def at(cls, root: Path) -> HostRoot:
        """Return the usual places below `root`, for example `/host`; `/` is the machine itself."""
        return cls(root / "proc", root / "sys/fs/cgroup", root / "sys/devices/system/node")


@dataclass(slots=True)
class SourceStatistics:
    """Statistics of one source since the process began."""

    reads: int = 0
    """Number of reads, successful or not."""
    failures: int = 0
    """Number of files without a value; files of ended groups are not counted."""
    last_seconds: float = 0.0
    """Wall time of the last read of the whole source."""
    total_seconds: float = 0.0
    """Wall time of all reads."""
    supported: bool = True
    """Whether the machine has the files of the source. Where it has not, nothing is read and nothing is wrong."""


@dataclass(slots=True)
class CollectStatistics:
    """Statistics of all collectors together."""

    sources: dict[str, SourceStatistics] = field(default_factory=lambda: collections.defaultdict(SourceStatistics))
    groups: int = 0
    """Number of pods and containers read now."""
    pods_in_system: int = 0
    """Number of pods that cannot be measured, and whose usage counts as system usage."""
    orphan_groups: int = 0
    """Number of groups of pods that are not bound to the node, and that have no memory group."""
    open_files: int = 0
    """Number of files open now: two per group unless the process may not open that many."""

    @contextmanager
    def timed(self, source: str) -> Iterator[None]:
        """Count one read of a source and the time it takes."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            statistics = self.sources[source]
            statistics.reads += 1
            statistics.last_seconds = time.perf_counter() - begin
            statistics.total_seconds += statistics.last_seconds

    def failed(self, source: str, failures: int = 1) -> None:
        """Count reads that gave no value."""
        self.sources[source].failures += failures
