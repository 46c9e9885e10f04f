"""Location of the host's folders: `/` on a bare machine, a mount point in a container."""

from __future__ import annotations

from dataclasses import dataclass
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
