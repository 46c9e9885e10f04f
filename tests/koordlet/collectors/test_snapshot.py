"""One tick makes one snapshot of everything."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pkgutil
import shutil
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from koordlet import collectors
from koordlet.cluster.pods import NoCluster
from koordlet.collectors import snapshot
from koordlet.collectors.interface import Collector, MeasuredValue, MetricDescription, RingShape
from koordlet.collectors.snapshot import HostCollector
from koordlet.metric_cache.aggregation import TimeWindow
from koordlet.metrics import agent as metrics
from koordlet.node_observer import NodeObserver
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.report.builder import ReportBuilder
from koordlet.samples import SeriesKey, SeriesKind, Snapshot, UsageSample
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import CGROUPFS, SYSTEMD, V1, V2, PlainHost

GIB = 1 << 30
CID = "c" * 64


class Node:
    """A host with a given usage of the node and of its pods, over ticks of one second."""

    def __init__(self, root, version=V2, driver=CGROUPFS, nesting=""):
        self.host = PlainHost(root, version, driver, nesting)
        self.clock = Clock()
        self.ticks = 0
        self.busy = {"node": 0.0}
        self.collector = HostCollector(self.host.host_root, self.clock)

    def tick(self, node, pods, seconds=1.0, arrange=lambda _: None):
        self.ticks += 1
        self.clock.advance(seconds)
        self.busy["node"] += node * seconds
        self.host.set_node(round(self.busy["node"] * 100), 4 * GIB)
        for uid, cores in pods.items():
            self.busy[uid] = self.busy.get(uid, 0.0) + cores * seconds
            self.host.set_group(self.host.pod(uid), self.busy[uid], GIB)
            self.host.set_group(self.host.container(uid, CID.replace("c", uid)), self.busy[uid], GIB // 2)
        arrange(self)
        return self.collector.collect(1000.0 + self.ticks)


@pytest.fixture(params=[(V1, CGROUPFS), (V1, SYSTEMD), (V2, CGROUPFS), (V2, SYSTEMD)], ids="-".join)
def node(request, tmp_path):
    node = Node(tmp_path, *request.param)
    yield node
    node.collector.close()


def test_the_first_snapshot_has_no_usage_and_no_fault(node):
    assert node.tick(2.0, {"a": 0.5}) == Snapshot(
        at_seconds=1001.0,
        node=None,
        system=None,
        unmeasured_pods=frozenset({"a"}),
    )


def test_a_snapshot_holds_node_pods_and_the_rest_as_system(node):
    node.tick(2.0, {"a": 0.5, "b": 0.25})
    snapshot = node.tick(2.0, {"a": 0.5, "b": 0.25})
    assert snapshot == Snapshot(
        at_seconds=1002.0,
        node=UsageSample(2.0, 4 * GIB),
        system=UsageSample(1.25, 2 * GIB),
        pods={"a": UsageSample(0.5, GIB), "b": UsageSample(0.25, GIB)},
    )


def test_the_usage_of_a_new_pod_does_not_count_as_system(node):
    node.tick(2.0, {"a": 0.5})
    snapshot = node.tick(2.0, {"a": 0.5, "b": 1.5})
    assert (snapshot.node.cpu_cores, snapshot.system, snapshot.unmeasured_pods) == (2.0, None, {"b"})
    assert node.tick(2.0, {"a": 0.5, "b": 1.0}).system.cpu_cores == 0.5


def test_the_last_moments_of_a_pod_do_not_count_as_system(node):
    node.tick(2.0, {"a": 0.5, "b": 1.5})
    node.tick(2.0, {"a": 0.5, "b": 1.5})
    node.host.remove_group(node.host.pod("b"))
    assert node.tick(2.0, {"a": 0.5}).system is None
    assert node.tick(2.0, {"a": 0.5}).system.cpu_cores == 1.5


def prune(node):
    """Remove the groups of the CPU hierarchy, as systemd does without Delegate (fedora-coreos-tracker#682)."""
    shutil.rmtree(node.host.cpu_mount / "kubepods")


def mount_cpu_apart(node):
    """Make a hierarchy of cpu beside that of cpuacct (huatuo#603)."""
    folder = node.host.cpu_mount.with_name("cpu") / node.host.pod("a")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.stat").write_text("nr_periods 10\nnr_throttled 1\nthrottled_time 5\n")


def run_in_a_virtual_machine(node):
    """Count nothing in the group of the pod: the machine has a group of its own (kata-containers/packaging#1025)."""
    node.host.set_group(node.host.pod("a"), 0, 0)
    node.host.set_group(Path("kata_overhead/a"), node.busy["a"], GIB)


@pytest.mark.parametrize(
    ("layout", "arrange", "pods", "system"),
    [
        ((V1,), prune, {}, None),
        ((V1,), mount_cpu_apart, {"a": UsageSample(0.75, GIB)}, UsageSample(1.25, 3 * GIB)),
        ((V2, CGROUPFS, "root/here"), lambda _: None, {"a": UsageSample(0.75, GIB)}, UsageSample(1.25, 3 * GIB)),
        ((V1,), run_in_a_virtual_machine, {"a": UsageSample(0, 0)}, UsageSample(2.0, 4 * GIB)),
        ((V2, SYSTEMD), run_in_a_virtual_machine, {"a": UsageSample(0, 0)}, UsageSample(2.0, 4 * GIB)),
    ],
)
def test_pods_of_another_arrangement_of_groups_are_measured_or_part_of_system_or_a_fault(
    tmp_path, layout, arrange, pods, system
):
    node = Node(tmp_path, *layout)
    for _ in range(3):
        snapshot = node.tick(2.0, {"a": 0.75}, arrange=arrange)
    assert (snapshot.node, snapshot.pods, snapshot.system) == (UsageSample(2.0, 4 * GIB), pods, system)
    assert [no_data.source for no_data in snapshot.no_data] == ["pod cgroups"] * (system is None)


def test_pods_are_measured_while_the_node_is_not(node):
    node.tick(2.0, {"a": 0.5})
    (node.host.host_root.proc_root / "stat").write_text("")
    node.clock.advance(1.0)
    snapshot = node.collector.collect(1002.0)
    assert (snapshot.node, snapshot.system, snapshot.pods.keys()) == (None, None, {"a"})
    assert [no_data.source for no_data in snapshot.no_data] == ["node usage"]


def test_the_node_is_measured_while_pods_cannot_be_found(tmp_path):
    node = Node(tmp_path)
    (node.host.host_root.cgroup_root / "cgroup.controllers").unlink()
    node.tick(2.0, {})
    snapshot = node.tick(2.0, {})
    assert (snapshot.node, snapshot.system) == (UsageSample(2.0, 4 * GIB), None)
    assert [no_data.source for no_data in snapshot.no_data] == ["cgroup controllers"]


def test_a_host_where_nothing_can_be_read_is_two_reasons_and_no_exception(tmp_path):
    node = Node(tmp_path / "there")
    collector = HostCollector(type(node.host.host_root).at(tmp_path / "elsewhere"), node.clock)
    snapshot = collector.collect(1.0)
    assert (snapshot.node, snapshot.system, snapshot.pods) == (None, None, {})
    assert {no_data.source for no_data in snapshot.no_data} == {"node usage", "cgroup controllers"}
    assert all(str(tmp_path / "elsewhere") in no_data.path for no_data in snapshot.no_data)


def test_a_wall_clock_that_steps_changes_stamps_and_no_rates(node):
    node.tick(2.0, {"a": 0.5})
    node.ticks -= 500
    snapshot = node.tick(2.0, {"a": 0.5})
    assert (snapshot.at_seconds, snapshot.node.cpu_cores, snapshot.pods["a"].cpu_cores) == (502.0, 2.0, 0.5)


def test_every_source_counts_its_reads(node):
    node.tick(2.0, {"a": 0.5})
    node.tick(2.0, {"a": 0.5})
    sources = node.collector.statistics.sources
    every_tick = ("node usage", "pod discovery", "pod cpu", "pod memory")
    assert {name: sources[name].reads for name in every_tick} == dict.fromkeys(every_tick, 2)
    assert {source.failures for source in sources.values()} == {0}


@pytest.fixture
def plain_host(tmp_path):
    return PlainHost(tmp_path)


def test_another_size_of_the_machine_is_seen_after_a_minute(plain_host):
    clock = Clock()
    plain_host.set_node(1000, GIB, total_bytes=16 * GIB, cpus=4)
    with contextlib.closing(HostCollector(plain_host.host_root, clock)) as collector:
        assert collector.machine_facts() == (4, 16 * GIB)
        plain_host.set_node(1000, GIB, total_bytes=32 * GIB, cpus=8)
        clock.advance(59)
        assert collector.machine_facts() == (4, 16 * GIB)
        clock.advance(1)
        assert collector.machine_facts() == (8, 32 * GIB)


KEY = SeriesKey(SeriesKind.NUMA_NODE, "disk")
READS = MetricDescription("koordlet_disk_reads", "Reads of a disk.", ("disk",), is_counter=True)


def written_collectors():
    """Yield every class of the package with the members of a collector."""
    for module in pkgutil.walk_packages(collectors.__path__, f"{collectors.__name__}."):
        for _name, written in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if written.__module__ == module.name and written is not Collector and is_collector(written):
                yield written


def is_collector(written):
    return all(hasattr(written, member) for member in ("collect", "measurements", "metrics"))


def test_every_written_collector_is_listed_once():
    listed = snapshot.COLLECTORS
    assert set(written_collectors()) == set(listed)
    assert len(set(listed)) == len(listed)


def test_names_of_collectors_and_metrics_are_unique():
    names = [each.name for each in snapshot.COLLECTORS]
    metric_names = [metric.name for each in snapshot.COLLECTORS for metric in each.metrics]
    assert len(set(names)) == len(names)
    assert len(set(metric_names)) == len(metric_names)


class Disks(Collector):
    """A new collector: its class and its line in the list."""

    name = "disks"
    ring = RingShape(interval_ticks=1, max_series=8)
    metrics = (READS,)

    @classmethod
    def on(cls, host):
        return cls()

    def collect(self, tick):
        return {KEY: UsageSample(tick.at_seconds, 2.0)}

    def measurements(self, metric):
        return [MeasuredValue(7.0, ("sda",))]


@pytest.fixture
def observer(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "COLLECTORS", (*snapshot.COLLECTORS, Disks))
    PlainHost(tmp_path).set_node(1000, 1 << 30)
    observer = NodeObserver(tmp_path, 100)
    yield observer
    observer.collector.close()


def test_a_listed_collector_reaches_the_cache(observer):
    for second in range(3):
        observer.observe(1000.0 + second, NoCluster(observer.machine_capacity()))
    cached = observer.cache.of_collectors["disks"].samples([KEY], TimeWindow(1002.0, 60.0))
    assert cached.values[0, 0].tolist() == [1000.0, 1001.0, 1002.0]


def test_a_listed_collector_reaches_the_metrics(observer):
    prometheus = CollectorRegistry()
    prometheus.register(
        metrics.AgentCollector(
            ReportBuilder(observer),
            metrics.Counts(),
            {},
            Checkpointer("", "n1", observer.server),
            cluster=NoCluster(observer.machine_capacity()),
        )
    )
    assert prometheus.get_sample_value("koordlet_disk_reads_total", {"disk": "sda"}) == 7.0
