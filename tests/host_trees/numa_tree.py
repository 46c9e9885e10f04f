"""Write the files of a machine with several NUMA nodes below a host root: /proc/stat by CPU, a folder for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from koordlet.collectors.host import HostRoot

KIB = 1024
CACHES = {"MemFree": 4 * KIB, "Active(file)": 8 * KIB, "Inactive(file)": 16 * KIB, "SReclaimable": 2 * KIB}
"""In bytes, of every node."""


def set_nodes(host: HostRoot, cpulists: Sequence[str], used_bytes: Sequence[int]) -> None:
    """Write a folder for every node, and the other entries that a kernel has there."""
    host.numa_root.mkdir(parents=True, exist_ok=True)
    for file in ("online", "possible"):
        (host.numa_root / file).write_text(f"0-{len(cpulists) - 1}\n")
    for number, (cpulist, used) in enumerate(zip(cpulists, used_bytes, strict=True)):
        folder = host.numa_root / f"node{number}"
        folder.mkdir(exist_ok=True)
        (folder / "cpulist").write_text(f"{cpulist}\n")
        (folder / "meminfo").write_text(meminfo(number, used))


def meminfo(number: int, used_bytes: int) -> str:
    sizes = {"MemTotal": used_bytes + sum(CACHES.values()), **CACHES, "Active": 99 * KIB, "Shmem": 7 * KIB}
    lines = [f"Node {number} {key + ':':<15} {size // KIB:>8} kB" for key, size in sizes.items()]
    return "\n".join([*lines, f"Node {number} HugePages_Total:     0"]) + "\n"


def set_cpu_ticks(host: HostRoot, busy_ticks: Mapping[int, int]) -> None:
    """Write /proc/stat; the busy ticks of each CPU are in its five busy columns, decoys in the others."""
    host.proc_root.mkdir(parents=True, exist_ok=True)
    lines = [f"cpu{cpu} {ticks - 4} 1 1 777777 8888 1 1 99 55 66" for cpu, ticks in busy_ticks.items()]
    total = sum(busy_ticks.values())
    text = "\n".join([f"cpu  {total} 0 0 5 5 0 0 5 5 5", *lines, "intr 1 2 3", "ctxt 5", "softirq 1 2"])
    (host.proc_root / "stat").write_text(text + "\n")
