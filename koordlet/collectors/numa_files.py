"""What the kernel's files say of NUMA nodes, from their text.

| cpulist                     | "0-3,8": the CPUs of one node that are online; nothing for a node of memory only    |
| /proc/stat                  | one line of ticks a CPU                                                             |
| nodeN/meminfo               | used = MemTotal - (MemFree + Active(file) + Inactive(file) + SReclaimable), from 0  |
| a group's memory.numa_stat  | v1: pages of hierarchical_anon and hierarchical_unevictable by node                 |
|                             | v2: bytes of inactive_anon, active_anon and unevictable by node                     |

The keys of memory.numa_stat are those that the usage of a pod is made of (`cgroup_files`). Parsers take bytes and raise
ValueError naming what is missing: absent is not zero. Source: koordinator-core 2.2, 2.4; the kernel's cgroup pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from api_types import cpu_list
from koordlet.collectors.cgroup_files import CgroupVersion

_CPU_LINE: Final = re.compile(rb"^cpu(\d+) (\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+)", re.MULTILINE)
"""Its groups: the CPU's number; user, nice, system, irq, softirq. Idle and iowait stand between the last two pairs."""
_MEMINFO_LINE: Final = re.compile(rb"^Node \d+ (\S+):\s+(\d+) kB$", re.MULTILINE)
_FREE: Final = (b"MemFree", b"Active(file)", b"Inactive(file)", b"SReclaimable")
_GROUP_KEYS: Final[Mapping[CgroupVersion, tuple[bytes, ...]]] = {
    CgroupVersion.V1: (b"hierarchical_anon", b"hierarchical_unevictable"),
    CgroupVersion.V2: (b"inactive_anon", b"active_anon", b"unevictable"),
}


def cpus(cpulist: bytes) -> frozenset[int]:
    """CPUs of a list of numbers and ranges; none for an empty one."""
    return cpu_list.parse(cpulist.decode(errors="replace"))


def busy_ticks(stat: bytes) -> dict[int, int]:
    """Ticks that each CPU that is online spent working since boot: user + nice + system + irq + softirq."""
    found = {int(cpu): sum(map(int, ticks)) for cpu, *ticks in _CPU_LINE.findall(stat)}
    if not found:
        raise ValueError(f"no line of a single CPU's times, it begins {stat[:40]!r}")
    return found


def used_bytes(meminfo: bytes) -> int:
    """Memory of one node that is in use and could not be had by dropping caches."""
    sizes = {key: int(kilobytes) * 1024 for key, kilobytes in _MEMINFO_LINE.findall(meminfo)}
    missing = [key.decode() for key in (b"MemTotal", *_FREE) if key not in sizes]
    if missing:
        raise ValueError(f"no size in kB of {', '.join(missing)}")
    return max(sizes[b"MemTotal"] - sum(sizes[key] for key in _FREE), 0)


def group_bytes(numa_stat: bytes, version: CgroupVersion, page_bytes: int) -> dict[int, int]:
    """Memory of one cgroup by node, without page cache; v1 counts it in pages of `page_bytes`."""
    keys = _GROUP_KEYS[version]
    fields = {key: values for key, *values in map(_fields, numa_stat.splitlines()) if key in keys}
    missing = [key.decode() for key in keys if key not in fields]
    if missing:
        raise ValueError(f"memory.numa_stat has no line of {', '.join(missing)}")
    unit = page_bytes if version is CgroupVersion.V1 else 1
    found: dict[int, int] = {}
    for values in fields.values():
        for node, amount in _by_node(values):
            found[node] = found.get(node, 0) + amount * unit
    return found


def _fields(line: bytes) -> list[bytes]:
    """Key, then N<node>=<amount> of each node; in v1 the key comes with a total that is not needed."""
    key, *values = line.split()
    return [key.partition(b"=")[0], *values]


def _by_node(values: Iterable[bytes]) -> Iterable[tuple[int, int]]:
    for value in values:
        name, _, amount = value.partition(b"=")
        if not (name[:1] == b"N" and name[1:].isdigit() and amount.isdigit()):
            raise ValueError(f"memory.numa_stat has {value[:40]!r}, want N<node>=<number>")
        yield int(name[1:]), int(amount)
