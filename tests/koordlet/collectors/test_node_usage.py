"""Usage of the node from a /proc made of files."""

from __future__ import annotations

import re

import pytest

from koordlet.collectors import node_usage
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.node_usage import MachineFacts, NodeUsageCollector
from koordlet.samples import UsageSample
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import PlainHost
from tests.host_trees.ticks import collected

GIB = 1 << 30


@pytest.fixture
def host(tmp_path):
    host = PlainHost(tmp_path)
    host.set_node(busy_ticks=1000, used_bytes=GIB)
    return host


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def node(host, clock):
    return NodeUsageCollector(host.host_root.proc_root, CollectStatistics(), clock)


def test_cpu_time_is_user_nice_system_irq_softirq_and_what_the_hypervisor_stole(host):
    stat = host.host_root.proc_root / "stat"
    stat.write_text("cpu  1 20 300 9999 9999 4000 50000 600000 9999 9999\n")
    ticks = node_usage.busy_cpu_seconds(host.host_root.proc_root) * 100
    assert ticks == pytest.approx(654321)


def test_memory_in_use_is_total_less_available(host):
    meminfo = host.host_root.proc_root / "meminfo"
    text = meminfo.read_text().splitlines()[3:]
    text += ["MemTotal:       263432804 kB", "MemFree:        254391744 kB", "MemAvailable:   256703236 kB"]
    meminfo.write_text("\n".join(text) + "\n")
    memory = node_usage.memory(host.host_root.proc_root)
    assert memory.usage_bytes == 6891077632
    assert memory.usage_with_page_cache_bytes == 9258045440
    assert memory.total_bytes == 269755191296


@pytest.mark.parametrize(
    ("lines", "pool", "swapped"),
    [
        ("HugePages_Total: 4096\nHugepagesize: 2048 kB\nHugetlb: 8388608 kB\n", 8, 0),  # half of the node
        ("HugePages_Total: 1\nHugepagesize: 1048576 kB\nHugetlb: 1048576 kB\n", 1, 0),
        ("HugePages_Total: 0\nHugepagesize: 2048 kB\nHugetlb: 2097152 kB\n", 2, 0),  # pages of another size
        ("HugePages_Total: 512\nHugepagesize: 2048 kB\n", 1, 0),  # before 4.20
        ("AnonHugePages: 534528 kB\nHugetlb: 0 kB\n", 0, 0),
        ("SwapCached: 1048576 kB\nSwapTotal: 8388608 kB\nSwapFree: 2097152 kB\n", 0, 5),
    ],
)
def test_pools_of_huge_pages_are_not_memory_and_what_is_swapped_out_is_used(host, lines, pool, swapped):
    host.set_node(0, used_bytes=pool * GIB + GIB)
    with (host.host_root.proc_root / "meminfo").open("a") as meminfo:
        meminfo.write(lines)
    memory = node_usage.memory(host.host_root.proc_root)
    assert (memory.usage_bytes, memory.total_bytes) == ((1 + swapped) * GIB, (16 - pool) * GIB)
    assert memory.usage_with_page_cache_bytes == (16 - pool + swapped) * GIB - 4096


def test_the_machine_has_the_cpus_and_memory_that_its_proc_lists(host):
    host.set_node(0, 0, total_bytes=8 * GIB, cpus=6)
    assert node_usage.machine_facts(host.host_root.proc_root) == MachineFacts(6, 8 * GIB)


def test_a_machine_without_proc_has_no_facts(tmp_path):
    assert node_usage.machine_facts(tmp_path / "nowhere") is None


def test_the_first_reading_gives_no_sample_of_either_resource_and_is_no_fault(node):
    first = collected(node)
    assert (first.node, first.no_data) == (None, ())


def test_usage_is_the_mean_since_the_previous_tick(host, node, clock):
    collected(node)
    clock.advance(2.0)
    host.set_node(busy_ticks=1300, used_bytes=2 * GIB)
    assert collected(node).node == UsageSample(1.5, float(2 * GIB))


def test_a_tick_that_failed_is_part_of_the_next_interval(host, node, clock):
    collected(node)
    stat = host.host_root.proc_root / "stat"
    stat.unlink()
    clock.advance(1.0)
    assert collected(node).node is None
    clock.advance(3.0)
    host.set_node(busy_ticks=1800, used_bytes=GIB)
    assert collected(node).node == UsageSample(2.0, float(GIB))


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("stat", None, "No such file or directory"),
        ("stat", "", r".*; want a first line of ten CPU times"),
        ("stat", "cpu 1 2 3\n", r".*; want a first line of ten CPU times"),
        ("stat", "cpu a b c d e f g h i j\n", r".*'a'; want a first line of ten CPU times"),
        ("stat", "cpu nan 2 3 4 5 6 7 8 9 10\n", r".*'nan'; want a first line of ten CPU times"),
        ("stat", "cpu 1 2 3 4 5 6 -7 8 9 10\n", r".* \(1, 2, 3, 6, -7, 8\); want a first line of ten CPU times"),
        ("stat", "cpu0 1 2 3 4 5 6 7 8 9 10\n", r".*'cpu0' .*; want a first line of ten CPU times"),
        ("meminfo", None, "No such file or directory"),
        ("meminfo", "MemFree: 5 kB\n", r".*MemTotal.*; want MemTotal, MemFree and MemAvailable in kB"),
        ("meminfo", "MemTotal: many kB\n", r".*'many'; want MemTotal, MemFree and MemAvailable in kB"),
    ],
)
def test_a_proc_that_cannot_be_read_is_no_data_with_the_reason(host, node, clock, file, text, reason):
    collected(node)
    clock.advance(1.0)
    path = host.host_root.proc_root / file
    path.unlink() if text is None else path.write_text(text)
    measurement = collected(node)
    assert measurement.node is None
    (no_data,) = measurement.no_data
    assert (no_data.source, no_data.path) == ("node usage", str(path))
    assert re.fullmatch(reason, no_data.reason)


def test_a_time_without_work_that_goes_back_is_no_fault(host, node, clock):
    """As the kernel's iowait and idle do (node_exporter#1686)."""
    stat = host.host_root.proc_root / "stat"
    for second, waited in enumerate([5482, 5481, 5400, 5482]):
        stat.write_text(f"cpu  {50 * second} 0 {50 * second} {7777 - second} {waited} 0 0 0 0 0\n")
        measured = collected(node)
        clock.advance(1.0)
        assert (measured.node and measured.node.cpu_cores, measured.no_data) == (1.0 if second else None, ())


def test_counters_that_went_back_are_no_data(host, node, clock):
    collected(node)
    clock.advance(1.0)
    host.set_node(busy_ticks=500, used_bytes=GIB)
    measurement = collected(node)
    assert measurement.node is None
    assert [no_data.reason for no_data in measurement.no_data] == ["the counter went back"]
