"""CPUs and memory of the machine are read once a minute."""

import contextlib

import pytest

from koordlet.collectors.cgroup import discovery
from koordlet.collectors.snapshot import SnapshotCollector
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import PlainHost

GIB = 1 << 30


@pytest.fixture
def host(tmp_path):
    return PlainHost(tmp_path)


def test_another_size_of_the_machine_is_seen_after_a_minute(host):
    clock = Clock()
    host.set_node(1000, GIB, total_bytes=16 * GIB, cpus=4)
    with contextlib.closing(SnapshotCollector(host.host_root, clock)) as collector:
        assert collector.machine_facts() == (4, 16 * GIB)
        host.set_node(1000, GIB, total_bytes=32 * GIB, cpus=8)
        clock.advance(59)
        assert collector.machine_facts() == (4, 16 * GIB)
        clock.advance(1)
        assert collector.machine_facts() == (8, 32 * GIB)


def test_the_layout_of_the_cgroups_is_searched_once_in_an_interval(host, monkeypatch):
    searched = []
    probe = discovery.cgroup_layout.probe
    monkeypatch.setattr(discovery.cgroup_layout, "probe", lambda root: searched.append(root) or probe(root))
    clock = Clock()
    host.set_node(1000, GIB)
    host.set_group(host.pod("a"), 1.0, GIB)
    with contextlib.closing(SnapshotCollector(host.host_root, clock)) as collector:
        collector.collect(1000.0)
        clock.advance(discovery.FULL_SCAN_SECONDS - 1)
        collector.collect(1000.0)
        assert len(searched) == 1
        clock.advance(1)
        collector.collect(1000.0)
        assert len(searched) == 2
