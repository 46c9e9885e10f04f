"""CPU of one tick on real v1 cgroups with live processes, compared with two usual methods in the same run.

    python -m benchmarks.bench_collect [--ticks N] [--pause SECONDS]

The usual methods: open() every file each time and split it into a dict; query psutil for every process of every
container.

Needs root and cgroup v1. Every container has a process that touches memory about twice a second, so that every kernel
counter changes. CPU is that of this thread, median over the ticks; the pause between ticks lets caches cool as they do
in an agent.
"""

from __future__ import annotations

import argparse
import gc
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks import bench_agent
from koordlet.collectors.snapshot import HostCollector
from tests.host_trees import live_cgroups
from tests.host_trees.live_cgroups import LiveCgroups

CONTAINERS = 2


def populate(host: LiveCgroups, pods: int) -> list[str]:
    """Create the groups of `pods` pods over the three QoS classes; return the groups of pods and containers."""
    groups = []
    for number in range(pods):
        qos = ("", "burstable/", "besteffort/")[number % 3]
        pod = f"kubepods/{qos}pod00000000-0000-0000-0000-{number:012d}"
        groups.append(pod)
        for container in range(CONTAINERS):
            group = f"{pod}/{number * CONTAINERS + container:064x}"
            host.group(group)
            host.run(group, "bash", "-c", bench_agent.TOUCH)
            groups.append(group)
    return groups


def naive_tick(cgroup_root: Path, groups: list[str]) -> dict[str, tuple[int, int]]:
    """Read the same files the usual way."""
    usage = {}
    for group in groups:
        cpu = int((cgroup_root / "cpuacct" / group / "cpuacct.usage").read_text())
        text = (cgroup_root / "memory" / group / "memory.stat").read_text()
        stat = {key: int(value) for key, value in (line.split() for line in text.splitlines())}
        memory = stat["total_inactive_anon"] + stat["total_active_anon"] + stat["total_unevictable"]
        usage[group] = (cpu, memory)
    return usage


def psutil_tick(cgroup_root: Path, containers: list[str], known: dict[int, psutil.Process]) -> dict[str, list[float]]:
    """Sum psutil's values over the processes of each container; memory is RSS, which counts shared pages repeatedly."""
    usage = {}
    for container in containers:
        cpu_seconds, rss_bytes = 0.0, 0
        for pid in map(int, (cgroup_root / "cpuacct" / container / "cgroup.procs").read_text().split()):
            process = known.setdefault(pid, psutil.Process(pid))
            with process.oneshot():
                times = process.cpu_times()
                cpu_seconds += times.user + times.system
                rss_bytes += process.memory_info().rss
        usage[container] = [cpu_seconds, rss_bytes]
    return usage


def median_cpu_ms(tick: Callable[[], object], ticks: int, pause: float) -> float:
    """Return the thread CPU milliseconds of a tick, median."""
    costs = []
    for _ in range(ticks):
        time.sleep(pause)
        begin = time.thread_time()
        tick()
        costs.append((time.thread_time() - begin) * 1000)
    return statistics.median(costs)


def bench(pods: int, ticks: int, pause: float) -> None:
    """Print one row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        host = LiveCgroups(Path(folder))
        try:
            groups = populate(host, pods)
            collector = HostCollector(host.host_root)
            collector.collect(time.time())
            gc.freeze()  # as the agent does: the processes above are thousands of objects that the agent does not have
            measured = len(collector.collect(time.time()).pods)
            assert measured == pods, f"{measured} of {pods} pods measured"
            kept = median_cpu_ms(lambda: collector.collect(time.time()), ticks, pause)
            root, containers = (
                host.host_root.cgroup_root,
                [group for group in groups if not group.rpartition("/")[2].startswith("pod")],
            )
            of_pods = sorted(set(groups) - set(containers))
            naive = median_cpu_ms(lambda: naive_tick(root, of_pods), ticks, pause)
            processes: dict[int, psutil.Process] = {}
            by_process = median_cpu_ms(lambda: psutil_tick(root, containers, processes), ticks, pause)
            assert len(processes) == len(containers), "one process in each container"
            sources = collector.statistics.sources.items()
            parts = ", ".join(
                f"{name} {part.total_seconds / part.reads * 1000:.2f}" for name, part in sources if part.reads
            )
            collector.close()
        finally:
            host.close()
    print(
        f"| {pods} x {CONTAINERS} | {kept:.2f} | {naive:.2f} | {naive / kept:.1f}x "
        f"| {by_process:.2f} | {by_process / kept:.1f}x | {parts} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ticks", type=int, default=30, help="ticks measured for each row (default %(default)s)")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between ticks (default %(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # groups are removed at the end
    if reason := live_cgroups.why_not("v1"):
        raise SystemExit(f"bench_collect {reason}")
    print("| pods x containers | tick, CPU ms | open and split, CPU ms | | psutil, CPU ms | | wall ms of the sources |")
    print("|---|---|---|---|---|---|---|")
    for pods in (110, 250):
        bench(pods, arguments.ticks, arguments.pause)


if __name__ == "__main__":
    main()
