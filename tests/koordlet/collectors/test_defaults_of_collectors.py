"""What is measured where a caller does not choose: no containers, and no page cache."""

from __future__ import annotations

import pytest

from koordlet.collectors.cgroup.discovery import CgroupDiscovery
from koordlet.collectors.interface import Host, Tick
from koordlet.collectors.node_usage import NodeUsage
from koordlet.collectors.open_files import DescriptorBudget
from koordlet.collectors.pod_usage import PodUsage
from koordlet.collectors.snapshot import SnapshotCollector
from koordlet.collectors.statistics import CollectStatistics
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import MIB, PlainHost


@pytest.fixture
def host(tmp_path):
    host = PlainHost(tmp_path)
    host.set_node(1000, 1 << 30, total_bytes=4 << 30)
    host.set_group(host.pod("a"), 1.0, MIB)
    host.set_group(host.container("a", "c" * 64), 1.0, MIB)
    return host


def test_containers_are_measured_on_request_only(host):
    clock = Clock()
    collector = SnapshotCollector(host.host_root, clock)
    for _ in range(2):
        clock.advance(1.0)
        collector.collect(1.7e9)
    assert collector.statistics.groups == 1
    collector.close()


def test_page_cache_of_the_node_counts_on_request_only(host):
    clock = Clock()
    usage = NodeUsage(host.host_root.proc_root, CollectStatistics(), clock)
    used = []
    for options in ({}, {}, {"counts_page_cache": True}):
        clock.advance(1.0)
        used.append(usage.measure(4, **options).usage)
    assert used[0] is None
    assert [sample.memory_bytes for sample in used[1:]] == [1 << 30, (4 << 30) - 4096]


def test_a_tick_without_a_choice_counts_no_page_cache(host):
    clock = Clock()
    usage = NodeUsage(host.host_root.proc_root, CollectStatistics(), clock)
    for _ in range(2):
        clock.advance(1.0)
        tick = Tick(1.7e9, cpu_count=4)
        usage.collect(tick)
    assert tick.node.memory_bytes == 1 << 30


def test_a_host_without_a_choice_has_no_containers_measured(host):
    clock, statistics = Clock(), CollectStatistics()
    on_host = PodUsage.on(Host(host.host_root, statistics, clock))
    alone = PodUsage(CgroupDiscovery(host.host_root.cgroup_root), DescriptorBudget(0), statistics, clock)
    for usage in (on_host, alone):
        for _ in range(2):
            clock.advance(1.0)
            found = usage.measure(4)
        assert statistics.groups == 1
        assert found.pods["a"].memory_bytes == MIB
        usage.close()
