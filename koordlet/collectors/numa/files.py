"""Parsers of the kernel's files on NUMA nodes.

| cpulist                     | "0-3,8": the CPUs of one node that are online; nothing for a node of memory only    |
| /proc/stat                  | one line of ticks a CPU                                                             |
| nodeN/meminfo               | used = MemTotal - (MemFree + Active(file) + Inactive(file) + SReclaimable), from 0  |
| a group's memory.numa_stat  | v1: pages of hierarchical_anon and hierarchical_unevictable by node                 |
|                             | v2: bytes of inactive_anon, active_anon and unevictable by node                     |

The keys of memory.numa_stat are those that make up the usage of a pod (`cgroup.files`). Parsers take bytes and raise
ValueError with the missing keys: absent is not zero. Sources: Koordinator's agent and the kernel's cgroup pages.
"""

from __future__ import annotations

import re
from typing import Final

from api_types.kubernetes import cpu_list
from koordlet.collectors.cgroup.files import CgroupVersion

_CPU_LINE: Final = re.compile(rb"^cpu(\d+) (\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+)", re.MULTILINE)
"""Groups: the number of the CPU; user, nice, system, irq, softirq. Idle and iowait are between the last two pairs."""
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
    """Return the ticks that each online CPU has worked since boot: user + nice + system + irq + softirq."""
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
