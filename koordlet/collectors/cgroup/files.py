"""Files of a cgroup and their parsers, for both versions of cgroups.

|        | v1                       | v2                       |
| cpu    | cpuacct.usage (ns)       | cpu.stat: usage_usec     |
| memory | memory.stat: total_<key> | memory.stat: <key>       |
| swap   | memory.stat: total_swap  | memory.swap.current      |

Memory usage is inactive_anon + active_anon + unevictable, and with page cache also active_file + inactive_file. In v2
what the kernel holds for the group and cannot reclaim is added, such as page tables, pipes and sockets: the limit of
the group counts it. In v1 no file separates it from what is reclaimable, and it is usage of the system. The v1 keys
are the hierarchical ones, because a pod's processes are in the groups of its containers.

Parsers take bytes and raise ValueError with the missing keys: absent is not zero. They run hundreds of times a second,
so the order of keys that every kernel prints has a fast path: one regular expression.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class CgroupVersion(enum.Enum):
    """Version of the cgroup file system of a controller."""

    V1 = 1
    V2 = 2


class MemoryStat(NamedTuple):
    """The keys of memory.stat that make up usage, all in bytes. In v2 cache is `file` and rss is `anon`."""

    cache: int
    rss: int
    inactive_anon: int
    active_anon: int
    inactive_file: int
    active_file: int
    unevictable: int

    @property
    def usage_bytes(self) -> int:
        """Memory in use without page cache."""
        return self.inactive_anon + self.active_anon + self.unevictable

    @property
    def usage_with_page_cache_bytes(self) -> int:
        """Memory in use including the file pages on the LRU lists."""
        return self.usage_bytes + self.active_file + self.inactive_file


_USED = ("inactive_anon", "active_anon", "unevictable")
_USED_WITH_PAGE_CACHE = (*_USED, "active_file", "inactive_file")
_KEYS: Mapping[CgroupVersion, Mapping[str, bytes]] = {
    CgroupVersion.V1: {field: b"total_" + field.encode() for field in MemoryStat._fields},
    CgroupVersion.V2: {field: field.encode() for field in MemoryStat._fields} | {"cache": b"file", "rss": b"anon"},
}


def memory_stat(text: bytes, version: CgroupVersion) -> MemoryStat:
    """Parse a memory.stat with its keys in any order."""
    keys = _KEYS[version]
    values = {key: value for key, _, value in (line.partition(b" ") for line in text.splitlines())}
    unusable = [key.decode() for key in keys.values() if not values.get(key, b"").isdigit()]
    if unusable:
        raise ValueError(f"memory.stat has no number for {', '.join(unusable)}; want all of {len(keys)} keys")
    return MemoryStat(*(int(values[keys[field]]) for field in MemoryStat._fields))


def _usage_parser(version: CgroupVersion, used: Collection[str]) -> Callable[[bytes], int]:
    """Return a parser of memory.stat that sums the fields in `used`, fast where the file is as kernels print it.

    They print two keys first, in v1 after others, and further down five in a row. In v2 the kernel memory follows the
    two keys since Linux 5.18, and the reclaimable slabs follow the five.
    """
    keys = _KEYS[version]
    lru = rb"\n".join(keys[field] + (rb" (\d+)" if field in used else rb" \d+") for field in MemoryStat._fields[2:])
    pattern = rb"\ntotal_cache \d+\ntotal_rss \d+(?:\n.*)*?\n%s(?=\n)"
    if version is CgroupVersion.V2:
        pattern = (
            rb"\Aanon \d+\nfile \d+(?:\nkernel (\d+))?(?:\n.*)*?\nsock (\d+)(?:\n.*)*?\n%s\nslab_reclaimable (\d+)\n"
        )
    as_printed = re.compile(pattern % lru)

    def parse(text: bytes) -> int:
        if match := as_printed.search(text):
            numbers = map(int, match.groups(0))
            if version is CgroupVersion.V1:
                return sum(numbers)
            kernel, sockets, *lists, reclaimable = numbers
        else:
            stat = memory_stat(text, version)
            lists = [getattr(stat, field) for field in used]
            kernel, sockets, reclaimable = (int(match[1]) if (match := key.search(text)) else 0 for key in _KERNEL)
        return max(kernel - reclaimable, 0) + sockets + sum(lists)

    return parse


_KERNEL = tuple(re.compile(rb"\n%s (\d+)\n" % key) for key in (b"kernel", b"sock", b"slab_reclaimable"))
"""Keys of v2 alone: the kernel memory that is not reclaimable is held, of sockets alone before Linux 5.18."""


def cpu_nanoseconds_v1(text: bytes) -> int:
    """Return the CPU time in cpuacct.usage."""
    try:
        nanoseconds = int(text)
    except ValueError:
        nanoseconds = -1
    if nanoseconds < 0:
        raise ValueError(f"cpuacct.usage is {text[:40]!r}, want one number")
    return nanoseconds


def cpu_nanoseconds_v2(text: bytes) -> int:
    """Return the CPU time in cpu.stat, where kernels print usage_usec first."""
    if first := _V2_CPU_AS_PRINTED.match(text):
        return int(first[1]) * 1000
    start = 0 if text.startswith(b"usage_usec ") else text.find(b"\nusage_usec ") + 1
    line, _, _ = text[start:].partition(b"\n")
    key, _, number = line.partition(b" ")
    if key != b"usage_usec" or not number.isdigit():
        raise ValueError(f"cpu.stat has no number for usage_usec, got {text[:40]!r}")
    return int(number) * 1000


_V2_CPU_AS_PRINTED = re.compile(rb"usage_usec (\d+)\n")


class UsageFile(NamedTuple):
    """A file of a group: its name, and a parser that returns nanoseconds of CPU or bytes of memory."""

    name: str
    parse: Callable[[bytes], int]
    most_bytes: int | None = None
    """Largest size, where it is so small that a buffer of that size saves time; None: any."""


CPU_FILES: Mapping[CgroupVersion, UsageFile] = {
    CgroupVersion.V1: UsageFile("cpuacct.usage", cpu_nanoseconds_v1, most_bytes=64),
    CgroupVersion.V2: UsageFile("cpu.stat", cpu_nanoseconds_v2),
}
MEMORY_FILES: Mapping[CgroupVersion, UsageFile] = {
    version: UsageFile("memory.stat", _usage_parser(version, _USED)) for version in CgroupVersion
}
PAGE_CACHE_PARSERS: Mapping[CgroupVersion, Callable[[bytes], int]] = {
    version: _usage_parser(version, _USED_WITH_PAGE_CACHE) for version in CgroupVersion
}
"""Parsers of `MEMORY_FILES` for usage with page cache."""


_SWAP = re.compile(rb"^(total_swap|swapcached) (\d+)$", re.MULTILINE)


def swapped_bytes(memory_stat: bytes, folder: Path) -> int:
    """Return the swapped-out memory of a group by its memory.stat and its folder.

    It is 0 where the kernel counts none, and it is part of the system's.
    """
    sizes = {key: int(size) for key, size in _SWAP.findall(memory_stat)}
    if b"total_swap" in sizes:
        return sizes[b"total_swap"]
    try:
        swapped = int((folder / "memory.swap.current").read_bytes())
    except FileNotFoundError:
        return 0
    return max(swapped - sizes.get(b"swapcached", 0), 0)


CPU_STAT = "cpu.stat"
FEWEST_PERIODS = 10
"""Fewer periods make no reliable share: ten are a second of work at the usual 100 ms."""
_LINES = re.compile(rb"^nr_periods (\d+)\nnr_throttled (\d+)$", re.MULTILINE)


class CpuPeriods(NamedTuple):
    """Counters since the group was created."""

    periods: int
    """Periods in which the limited group had work."""
    throttled: int
    """Periods in which the group was stopped because its quota was used up."""


def cpu_periods(text: bytes) -> CpuPeriods:
    """Parse cpu.stat of either version. ValueError where the kernel counts no periods."""
    match = _LINES.search(text)
    if match is None:
        raise ValueError(f"cpu.stat has no nr_periods and nr_throttled, got {text[:40]!r}")
    return CpuPeriods(int(match[1]), int(match[2]))


def throttled_ratio(before: CpuPeriods, now: CpuPeriods) -> float | None:
    """Return the share of the periods between two readings in which the group was throttled, 0..1.

    None when too few periods passed (no limit, or no work) or when a counter went back. At most 1: a period may end
    while the kernel prints the two numbers.
    """
    periods, throttled = now.periods - before.periods, now.throttled - before.throttled
    return min(throttled / periods, 1.0) if periods >= FEWEST_PERIODS and throttled >= 0 else None


def worst(ratios: Iterable[float | None]) -> float | None:
    """Return the largest ratio of a pod's own group and its containers, None when none is known."""
    return max((ratio for ratio in ratios if ratio is not None), default=None)
