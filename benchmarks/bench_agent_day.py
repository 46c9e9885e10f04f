"""A day of an agent in a few minutes: memory and tracked series while 1,000 pods come and go, on a simulated clock.

    python -m benchmarks.bench_agent_day [--hours H] [--pods N] [--pods-a-day N]

Everything but the loop and the connection to the API server is the agent's own: it ticks every simulated second over a
v2 tree of files, trains every 30 s, builds and serialises a report every 60 s, and writes a checkpoint every 10
minutes. Half of the pods stay all day; the others live one after another. RSS is that of the whole process as counted
by the kernel, so it includes the little that this driver needs.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import os
import random
import tempfile
import time
from pathlib import Path

import msgspec

from api_types.kubernetes import pods as pod_types
from benchmarks import bench_agent
from koordlet import node_observer
from koordlet.cluster import pods as pods_on_node
from koordlet.cluster import spec_in_force
from koordlet.cluster.view import ClusterView
from koordlet.prediction import checkpoint
from koordlet.prediction.allocation import WholeAmounts
from koordlet.report.builder import ReportBuilder
from tests.fakes import agent_process
from tests.host_trees import plain_files
from tests.host_trees.clock import Clock

START = 1.7e9
TRAIN, REPORT, CHANGE, CHECKPOINT, ROW = 30, 60, 30, 600, 7200
"""Ticks between two of each; CHANGE is when the counters of the pods change."""
CPUS = 64
MEMORY = 256 << 30
POLICY = spec_in_force.predict_policy(None)


class Day:
    """A node, its agent, and the pods that come and go on it."""

    def __init__(self, folder: Path, pods: int, pods_a_day: int) -> None:
        self.chance = random.Random(7)
        self.clock = Clock()
        self.host = plain_files.PlainHost(folder / "host")
        self.checkpoint = folder / "prediction.checkpoint"
        self.view = ClusterView(bench_agent.NODE)
        self.view.allocatable = self.view.capacity = WholeAmounts(CPUS * 1000, MEMORY)
        self.view.pods.synced = True
        self.observer = node_observer.NodeObserver(folder / "host", 1500, self.clock)
        self.reports = ReportBuilder(self.observer)
        self.groups: dict[Path, tuple[float, int]] = {}
        self.replaceable: collections.deque[int] = collections.deque()
        self.ticks_a_pod = 86_400 // pods_a_day
        self.started = 0
        self.busy_ticks = 0
        for number in range(pods):
            self.start_pod()
            if number % 2:
                self.replaceable.append(number)

    def start_pod(self) -> None:
        """Bind a pod and create its groups."""
        number, self.started = self.started, self.started + 1
        text = msgspec.json.encode(bench_agent.pod(number))
        self.view.pods.put(pods_on_node.describe(msgspec.json.decode(text, type=pod_types.Pod)))
        for group in self.groups_of(number):
            self.move(group)

    def end_pod(self, number: int) -> None:
        """Remove a pod and its groups."""
        pod, *containers = self.groups_of(number)
        self.host.remove_group(pod)
        for group in (pod, *containers):
            del self.groups[group]
        self.view.pods.drop("default", f"pod-{number}")

    def groups_of(self, number: int) -> list[Path]:
        uid, qos = bench_agent.uid(number), bench_agent.qos_of(number)
        identities = [bench_agent.container_id(number, each) for each in range(bench_agent.CONTAINERS)]
        return [self.host.pod(uid, qos), *(self.host.container(uid, identity, qos) for identity in identities)]

    def move(self, group: Path) -> None:
        """Let a group use some CPU and memory."""
        cpu_seconds, _ = self.groups.get(group, (0.0, 0))
        self.groups[group] = cpu_seconds + self.chance.uniform(0, 0.5), self.chance.randrange(64 << 20, 512 << 20)
        self.host.set_group(group, *self.groups[group])

    def tick(self, number: int) -> None:
        """Simulate one second."""
        self.clock.advance(1.0)
        now = START + number
        if number % self.ticks_a_pod == 0:
            self.end_pod(self.replaceable.popleft())
            self.replaceable.append(self.started)
            self.start_pod()
        if number % CHANGE == 0:
            for group in self.groups:
                self.move(group)
        self.busy_ticks += self.chance.randrange(800, 1600)
        self.host.set_node(self.busy_ticks, 128 << 30, MEMORY, CPUS)
        self.observer.observe(now, self.view)
        if number % TRAIN == 0:
            self.observer.train(now, spec_in_force.predict_parameters(POLICY))
        if number % REPORT == 0:
            forecast = self.reports.predict(now, self.view, POLICY)
            assert forecast is not None, "a measured node has a report"
            json.dumps(self.reports.build(forecast, self.view, None).to_wire())
        if number % CHECKPOINT == 0:
            content = checkpoint.Checkpoint(bench_agent.NODE, now, self.observer.server.export())
            problem = checkpoint.save(self.checkpoint, content)
            assert problem is None, problem


def bench(hours: float, pods: int, pods_a_day: int) -> None:
    """Print a row for each two simulated hours, and the change between the first and the last."""
    print("| hour | pods so far | RSS, MiB | tracked series | series in the checkpoint | KiB of it | open files |")
    print("|---|---|---|---|---|---|---|")
    rss = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        day = Day(Path(folder), pods, pods_a_day)
        gc.freeze()
        begin = time.process_time()
        for number in range(1, round(hours * 3600) + 1):
            day.tick(number)
            if number % ROW == 0:
                rss.append(agent_process.usage(os.getpid()).rss_bytes)
                observer = day.observer
                modelled, size = len(observer.server.export().keys), day.checkpoint.stat().st_size
                print(
                    f"| {number / 3600:g} | {day.started} | {rss[-1] / 2**20:.1f} | {observer.cache.series_count} "
                    f"| {modelled} | {size / 1024:.0f} | {observer.collector.statistics.open_files} |",
                    flush=True,
                )
        spent = time.process_time() - begin
        day.observer.collector.close()
    print(f"\n{pods} pods at a time; {spent:.0f} s of CPU, this driver's share included.")
    if len(rss) > 1:
        print(f"RSS from the first row to the last: {(rss[-1] - rss[0]) / 2**10:+.0f} KiB.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0, help="simulated (default %(default)s)")
    parser.add_argument("--pods", type=int, default=60, help="at a time (default %(default)s)")
    parser.add_argument("--pods-a-day", type=int, default=1000, help="that come and go (default %(default)s)")
    arguments = parser.parse_args()
    bench(arguments.hours, arguments.pods, arguments.pods_a_day)


if __name__ == "__main__":
    main()
