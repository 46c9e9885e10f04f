"""Which folders are NUMA nodes, and how many nodes make a machine whose nodes are read."""

from __future__ import annotations

import shutil

import pytest

from koordlet.collectors.interface import Tick
from koordlet.collectors.numa import attribution
from koordlet.collectors.numa.attribution import CpuTimes
from koordlet.collectors.numa.collector import NUMA_TICKS, NumaUsage
from koordlet.samples import SeriesKey, SeriesKind, UsageSample
from tests.host_trees import numa_tree
from tests.koordlet.collectors.numa.test_collector import Machine


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_machine_is_read_from_two_nodes_on(machine):
    source = machine.statistics.source("NUMA usage")
    assert set(machine.read().nodes) == {0, 1}
    assert source.supported is True
    shutil.rmtree(machine.host.numa_root / "node1")
    assert machine.read() is None
    assert source.supported is False


@pytest.mark.parametrize("name", ["node", "nodes", "node2x", "2", "0002", "edon2", "has_cpu"])
def test_other_names_in_the_folder_are_no_nodes(machine, name):
    (machine.host.numa_root / name).mkdir()
    assert set(machine.read().nodes) == {0, 1}
    assert machine.usage.no_data == ()


def test_a_ring_has_room_for_two_series_of_each_of_64_nodes():
    assert NumaUsage.ring.max_series == 2 * 64


@pytest.mark.parametrize("system", [None, UsageSample(0.75, 5e7)])
def test_a_node_has_a_system_series_where_the_system_is_known(machine, system):
    machine.read()
    machine.clock.advance(10.0)
    machine.ticks[0] += 1000
    numa_tree.set_cpu_ticks(machine.host, machine.ticks)
    tick = Tick(1.7e9, system=system, groups=machine.groups, are_pods_complete=True)
    found = machine.usage.collect(tick)
    nodes = {SeriesKey(SeriesKind.NUMA_NODE, name) for name in "01"}
    systems = {SeriesKey(SeriesKind.NUMA_SYSTEM, name) for name in "01"} if system else set()
    assert found.keys() == nodes | systems
    assert found[SeriesKey(SeriesKind.NUMA_NODE, "0")].cpu_cores == 1.0
    if system:
        assert found[SeriesKey(SeriesKind.NUMA_SYSTEM, "0")].cpu_cores == 0.75, "only node 0 worked"
    assert all(machine.usage.collect(tick) == {} for _ in range(NUMA_TICKS - 1))


@pytest.mark.parametrize(("before", "now"), [({0: 1, 1: 1}, {0: 2}), ({0: 1}, {0: 2, 1: 2}), ({0: 1}, {0: 2})])
def test_a_node_with_a_cpu_that_is_missing_from_a_reading_has_no_rate(before, now):
    found = attribution.cpu_cores(CpuTimes(before, 0), CpuTimes(now, 1), {0: {0}, 1: {1}})
    assert found == {0: 1.0}
