"""NUMA nodes in a tree of files, and those of the present machine compared with the kernel's own sums."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.collectors import numa
from koordlet.collectors.cgroup.discovery import CgroupLayout, ControllerMount, FollowedGroups
from koordlet.collectors.cgroup.files import CgroupVersion
from koordlet.collectors.host import CollectStatistics, HostRoot
from koordlet.collectors.interface import Tick
from koordlet.collectors.numa import NUMA_TICKS, NumaCollector, NumaMeasurement
from koordlet.samples import NumaSample, SeriesKey, SeriesKind, UsageSample
from tests.host_trees import numa_tree
from tests.host_trees.clock import Clock

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")


class Machine:
    """Two nodes of two CPUs each, and pods whose groups are plain files."""

    def __init__(self, root):
        self.host = HostRoot.at(root)
        self.clock = Clock()
        self.statistics = CollectStatistics()
        self.usage = NumaCollector(self.host, self.statistics, self.clock)
        self.ticks = dict.fromkeys(range(4), 100)
        mount = ControllerMount(self.host.cgroup_root, CgroupVersion.V1)
        self.groups = FollowedGroups(CgroupLayout(mount, mount, ("kubepods",)), {})
        numa_tree.set_nodes(self.host, ["0-1", "2,3"], [100 * MIB, 50 * MIB])
        numa_tree.set_cpu_ticks(self.host, self.ticks)

    def set_pod(self, uid, pages_of_node):
        path = self.host.cgroup_root / uid
        path.mkdir(parents=True, exist_ok=True)
        nodes = " ".join(f"N{node}={pages}" for node, pages in pages_of_node.items())
        text = f"anon=0 {nodes}\nhierarchical_anon=0 {nodes}\nhierarchical_unevictable=0 N0=0 N1=0\n"
        (path / "memory.numa_stat").write_text(text)
        self.groups = FollowedGroups(self.groups.layout, {**self.groups.pods, uid: (uid, f"{uid}/container")})
        return path

    def read(self, busy_ticks=()):
        """Advance ten seconds and ten ticks."""
        self.clock.advance(10.0)
        for cpu, ticks in dict(busy_ticks).items():
            self.ticks[cpu] += ticks
        numa_tree.set_cpu_ticks(self.host, self.ticks)
        results = [self.usage.measure(self.groups) for _ in range(NUMA_TICKS)]
        assert results[1:] == [None] * (NUMA_TICKS - 1)
        return results[0]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_pool_of_huge_pages_is_not_used_memory(tmp_path):
    machine = Machine(tmp_path)
    before = machine.read().memory_bytes
    for size, pages in (("2048kB", 8), ("1048576kB", 0)):
        pool = machine.host.numa_root / "node0/hugepages" / f"hugepages-{size}"
        pool.mkdir(parents=True)
        (pool / "nr_hugepages").write_text(f"{pages}\n")
    assert machine.read().memory_bytes == {0: before[0] - 16 * MIB, 1: before[1]}


def test_every_node_has_its_cpus_and_its_memory_and_the_pods_are_summed(machine):
    machine.set_pod("a", {0: 10, 1: 20})
    machine.set_pod("b", {0: 1, 1: 2})
    assert machine.read().cpu_cores == {}
    measured = machine.read({0: 1000, 1: 500, 3: 50})
    assert measured.cpu_cores == {0: 1.5, 1: 0.05}
    assert measured.memory_bytes == {0: 100 * MIB, 1: 50 * MIB}
    assert measured.pods_memory_bytes == {0: 11 * PAGE, 1: 22 * PAGE}
    assert set(measured.nodes) == {0, 1}
    assert machine.usage.no_data == ()


@pytest.mark.parametrize("nodes", [0, 1])
def test_a_machine_with_one_node_or_no_numa_is_not_read_and_not_a_fault(tmp_path, nodes):
    host, statistics = HostRoot.at(tmp_path), CollectStatistics()
    if nodes:
        numa_tree.set_nodes(host, ["0-3"], [MIB])
    usage = NumaCollector(host, statistics)
    assert [usage.measure(None) for _ in range(NUMA_TICKS * 2)] == [None] * NUMA_TICKS * 2
    source = statistics.sources["NUMA usage"]
    assert (usage.no_data, source.supported, source.reads, source.failures) == ((), False, 0, 0)


@pytest.mark.parametrize(("file", "text"), [("cpulist", "many"), ("meminfo", "")])
def test_an_invalid_file_removes_its_node_and_is_named(machine, file, text):
    machine.read()
    path = machine.host.numa_root / "node1" / file
    path.write_text(text)
    measured = machine.read({0: 100, 2: 100})
    assert set(measured.cpu_cores.keys() & measured.memory_bytes.keys()) == {0}
    assert [each.path for each in machine.usage.no_data] == [str(path)]
    assert machine.statistics.sources["NUMA usage"].failures == 1


def test_without_proc_stat_there_is_no_cpu_and_the_rate_after_it_spans_no_gap(machine):
    machine.read()
    (machine.host.proc_root / "stat").unlink()
    machine.clock.advance(10.0)
    for _ in range(NUMA_TICKS):
        machine.usage.measure(machine.groups)
    assert [each.path for each in machine.usage.no_data] == [str(machine.host.proc_root / "stat")]
    assert machine.read({0: 100}).cpu_cores == {}
    assert machine.read({0: 100}).cpu_cores == {0: 0.1, 1: 0.0}


def test_a_pod_that_ended_has_no_memory_and_one_that_cannot_be_read_leaves_the_sum_unknown(machine):
    ended, broken = machine.set_pod("ended", {0: 5}), machine.set_pod("broken", {0: 7})
    (ended / "memory.numa_stat").unlink()
    ended.rmdir()
    assert machine.read().pods_memory_bytes == {0: 7 * PAGE, 1: 0}
    (broken / "memory.numa_stat").write_text("")
    assert machine.read().pods_memory_bytes is None
    assert [each.path for each in machine.usage.no_data] == [str(broken / "memory.numa_stat")]


def busy_seconds():
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq + times.steal


def test_on_this_machine_the_nodes_add_up_to_the_kernels_totals():
    if not Path("/sys/devices/system/node/node0/meminfo").exists():
        pytest.skip("this kernel knows no NUMA nodes")
    clock = Clock()
    usage = NumaCollector(HostRoot.at(Path("/")), CollectStatistics(), clock, fewest_nodes=1)
    before = busy_seconds()
    first, *_rest = [usage.measure(None) for _ in range(NUMA_TICKS)]
    assert first.cpu_cores == {}
    inside = busy_seconds()
    while busy_seconds() < inside + 0.2:
        pass  # the loop is the load
    worked = busy_seconds() - inside
    clock.advance(1.0)  # so that cores are seconds of work
    measured = usage.measure(None)
    at_most = busy_seconds() - before
    assert usage.no_data == ()
    assert measured.cpu_cores.keys() == measured.memory_bytes.keys() == set(measured.nodes)
    rounding = 5 * 0.01 * len(os.sched_getaffinity(0))  # five columns per CPU are whole ticks
    assert worked - rounding <= sum(measured.cpu_cores.values()) <= at_most + rounding
    memory = psutil.virtual_memory()
    assert sum(measured.memory_bytes.values()) == pytest.approx(memory.total - memory.available, abs=0.1 * memory.total)


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


STAT = b"""cpu  30 3 3 300 30 3 3 3 0 0
cpu0 10 1 2 100 20 3 4 5 6 7
cpu11 20 2 1 200 10 0 9 1 0 0
intr 123 cpu0 1 2 3
softirq 1 2 3
"""
GROUP_V1 = b"""total=30 N0=10 N1=20
file=20 N0=7 N1=13
anon=6 N0=2 N1=4
unevictable=4 N0=1 N1=3
hierarchical_total=300 N0=100 N1=200
hierarchical_file=200 N0=70 N1=130
hierarchical_anon=60 N0=20 N1=40
hierarchical_unevictable=40 N0=10 N1=30
"""
GROUP_V2 = b"""anon N0=900 N1=901
file N0=800 N1=801
inactive_anon N0=100 N1=200
active_anon N0=10 N1=20
inactive_file N0=700 N1=701
unevictable N0=1 N1=2
workingset_refault_anon N0=5 N1=6
"""


def test_busy_ticks_are_all_but_idle_iowait_and_guest():
    assert numa.busy_ticks(STAT) == {0: 10 + 1 + 2 + 3 + 4 + 5, 11: 20 + 2 + 1 + 0 + 9 + 1}


@pytest.mark.parametrize("key", ["MemTotal", "MemFree", "Active(file)", "Inactive(file)", "SReclaimable"])
def test_a_size_that_is_missing_is_named(key):
    lines = [line for line in numa_tree.meminfo(0, 1 << 20).splitlines() if f" {key}:" not in line]
    with pytest.raises(ValueError) as refused:
        numa.used_bytes("\n".join(lines).encode())
    assert str(refused.value) == f"no size in kB of {key}"


def test_memory_of_a_group_uses_the_keys_of_pod_usage():
    assert numa.group_bytes(GROUP_V1, CgroupVersion.V1, 4096) == {0: 30 * 4096, 1: 70 * 4096}
    assert numa.group_bytes(GROUP_V2, CgroupVersion.V2, 4096) == {0: 111, 1: 222}


@pytest.mark.parametrize(
    ("text", "version", "detail"),
    [
        (GROUP_V1, CgroupVersion.V2, "no line of inactive_anon, active_anon"),
        (b"", CgroupVersion.V1, "no line of hierarchical_anon, hierarchical_unevictable"),
        (GROUP_V2.replace(b"N1=200", b"N1=-200"), CgroupVersion.V2, "no line of inactive_anon with N<node>=<number>"),
    ],
)
def test_a_group_without_its_numbers_is_refused(text, version, detail):
    with pytest.raises(ValueError) as refused:
        numa.group_bytes(text, version, 4096)
    assert detail in str(refused.value)


CORES = st.floats(0, 1e3)


@given(CORES, st.dictionaries(st.integers(0, 7), st.floats(1e-6, 1e3), min_size=1))
def test_the_shares_of_the_system_add_up_to_it_and_are_in_proportion(system, of_nodes):
    shares = numa.system_cpu_cores(system, of_nodes)
    assert sum(shares.values()) == pytest.approx(system)
    for node, used in of_nodes.items():
        assert shares[node] * sum(of_nodes.values()) == pytest.approx(used * system)


def test_memory_of_pods_is_not_system_memory_and_the_rest_is_never_below_zero():
    assert numa.system_memory_bytes({0: 100, 1: 50, 2: 7}, {0: 30, 1: 60}) == {0: 70, 1: 0, 2: 7}


@pytest.mark.parametrize(
    ("measured", "system"),
    [
        (NumaMeasurement({0: 1.0, 1: 3.0}, {0: 100, 1: 50}, None, {0, 1}), UsageSample(2.0, 0.0)),
        (NumaMeasurement({0: 1.0, 1: 3.0}, {0: 100, 1: 50}, {0: 1}, {0, 1}), None),
        (NumaMeasurement({0: 1.0}, {0: 100, 1: 50}, {0: 1}, {0, 1}), UsageSample(2.0, 0.0)),
    ],
    ids=["a pod could not be read", "the system is not known", "a node has no CPU rate"],
)
def test_without_a_known_sum_the_system_share_is_unknown(measured, system):
    found = numa.samples(measured, system)
    assert found[0] == NumaSample(UsageSample(1.0, 100.0), None)
    assert all(sample.system is None for sample in found.values())
