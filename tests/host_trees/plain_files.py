"""Write a host of plain files: /proc and a cgroup tree of any version, driver and nesting, in the layout of kernels and
kubelets. Tests set the numbers; folders count links as cgroup folders do (on tmpfs, ext4, xfs)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from koordlet.collectors.host import HostRoot
from tests.host_trees.group_names import BESTEFFORT, BURSTABLE, CGROUPFS, GUARANTEED, SYSTEMD, GroupNames

__all__ = ["BESTEFFORT", "BURSTABLE", "CGROUPFS", "GUARANTEED", "HYBRID", "SYSTEMD", "V1", "V2", "PlainHost", "rewrite"]

V1, V2, HYBRID = "v1", "v2", "hybrid"

MIB = 1 << 20
TICKS_PER_SECOND = 100


def memory_stat_v1(usage_bytes: int) -> str:
    """Return a v1 memory.stat whose hierarchical usage without page cache is `usage_bytes`, with decoys around it."""
    own = (
        "cache 999\nrss 999\nmapped_file 999\ninactive_anon 999\nactive_anon 999\ninactive_file 999\nactive_file 999\n"
    )
    return (
        own + "unevictable 999\nhierarchical_memory_limit 9223372036854771712\n"
        f"total_cache {5 * MIB}\ntotal_rss {usage_bytes}\ntotal_rss_huge 0\ntotal_mapped_file 4096\n"
        f"total_inactive_anon {usage_bytes // 4}\n"
        f"total_active_anon {usage_bytes - usage_bytes // 4 - usage_bytes // 8}\n"
        f"total_inactive_file {3 * MIB}\ntotal_active_file {2 * MIB}\ntotal_unevictable {usage_bytes // 8}\n"
    )


def memory_stat_v2(usage_bytes: int) -> str:
    """Return a v2 memory.stat whose usage without page cache is `usage_bytes`."""
    return (
        f"anon {usage_bytes}\nfile {5 * MIB}\nkernel 8192\nkernel_stack 4096\npagetables 4096\nsock 0\nshmem 0\n"
        f"inactive_anon {usage_bytes // 4}\nactive_anon {usage_bytes - usage_bytes // 4 - usage_bytes // 8}\n"
        f"inactive_file {3 * MIB}\nactive_file {2 * MIB}\nunevictable {usage_bytes // 8}\n"
        "slab_reclaimable 8192\nslab_unreclaimable 100\nslab 8292\npgfault 10\npgmajfault 0\n"
    )


def rewrite(path: Path, text: str) -> None:
    """Write a file without emptying it before: ext4 flushes a file that was emptied to the disk when it is closed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        data = text.encode()
        os.write(descriptor, data)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


class PlainHost:
    """One host. `nesting` is the group of the kubelet's root, for example "kubelet" in kind."""

    def __init__(self, root: Path, version: str = V2, driver: str = CGROUPFS, nesting: str = "") -> None:
        self.host_root = HostRoot.at(root)
        self.version = version
        self._names = GroupNames(driver, nesting)
        self.pod = self._names.pod
        self.container = self._names.container
        self._cgroups = self.host_root.cgroup_root
        mounts = [self.cpu_mount, self.memory_mount]
        for mount in mounts:
            mount.mkdir(parents=True, exist_ok=True)
        if version == V2:
            (self._cgroups / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc\n")
        if version == HYBRID:
            (self._cgroups / "unified").mkdir()
            (self._cgroups / "unified" / "cgroup.controllers").write_text("")
        self._write_group(Path(), 0, 0)
        self._mkdir(self._names.qos(GUARANTEED))
        self._mkdir(self._names.qos(BURSTABLE))
        self._mkdir(self._names.qos(BESTEFFORT))
        self.host_root.proc_root.mkdir(parents=True, exist_ok=True)

    @property
    def cpu_mount(self) -> Path:
        return self._cgroups if self.version == V2 else self._cgroups / "cpuacct"

    @property
    def memory_mount(self) -> Path:
        return self._cgroups if self.version == V2 else self._cgroups / "memory"

    def set_node(self, busy_ticks: int, used_bytes: int, total_bytes: int = 16 << 30, cpus: int = 4) -> None:
        """Write /proc/stat and /proc/meminfo. The busy ticks are spread over the five busy columns."""
        part, rest = divmod(busy_ticks, 5)
        line = f"{part + rest} {part} {part} 777777 8888 {part} {part} 99 55 66"
        lines = [f"cpu  {line}", *(f"cpu{n} {line}" for n in range(cpus)), "intr 1 2 3", "ctxt 5", "btime 1700000000"]
        rewrite(self.host_root.proc_root / "stat", "\n".join(lines) + "\n")
        sizes = {"MemTotal": total_bytes, "MemFree": 4096, "MemAvailable": total_bytes - used_bytes}
        sizes |= dict.fromkeys(("Buffers", "Cached", "Active", "Inactive", "Shmem", "Slab", "SReclaimable"), 8192)
        text = "".join(f"{key + ':':<15} {size // 1024:>8} kB\n" for key, size in sizes.items())
        rewrite(self.host_root.proc_root / "meminfo", text)

    def set_group(self, group: Path, cpu_seconds: float, memory_bytes: int) -> None:
        """Make a group, or change its numbers."""
        self._mkdir(group)
        self._write_group(group, cpu_seconds, memory_bytes)

    def write(self, group: Path, file: str, text: str) -> None:
        """Write any text to a file of a group, keeping the inode as a kernel does."""
        mount = self.memory_mount if file.startswith("memory.") else self.cpu_mount
        rewrite(mount / group / file, text)

    def remove_file(self, group: Path, file: str) -> None:
        """Remove one file of a group, as for a controller that is not enabled."""
        mount = self.memory_mount if file.startswith("memory.") else self.cpu_mount
        (mount / group / file).unlink()

    def remove_group(self, group: Path) -> None:
        """Remove a group and its children."""
        for mount in {self.cpu_mount, self.memory_mount}:
            shutil.rmtree(mount / group)

    def _mkdir(self, group: Path) -> None:
        for mount in {self.cpu_mount, self.memory_mount}:
            (mount / group).mkdir(parents=True, exist_ok=True)

    def _write_group(self, group: Path, cpu_seconds: float, memory_bytes: int) -> None:
        if self.version == V2:
            usec = round(cpu_seconds * 1e6)
            self.write(group, "cpu.stat", f"usage_usec {usec}\nuser_usec {usec}\nsystem_usec 0\nnr_periods 0\n")
            self.write(group, "memory.stat", memory_stat_v2(memory_bytes))
        else:
            self.write(group, "cpuacct.usage", f"{round(cpu_seconds * 1e9)}\n")
            self.write(group, "memory.stat", memory_stat_v1(memory_bytes))
