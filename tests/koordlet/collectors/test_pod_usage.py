"""Pods from tick to tick, in both versions of cgroups, with and without open descriptors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from koordlet.collectors.cgroup.discovery import CgroupDiscovery
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.open_files import DescriptorBudget
from koordlet.collectors.pod_usage import MOST_UNMEASURED_TICKS, POD_MEMORY_TICKS, PodUsageCollector
from koordlet.samples import UsageSample
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import BESTEFFORT, CGROUPFS, MIB, SYSTEMD, V1, V2, PlainHost
from tests.host_trees.ticks import collected

CID, SANDBOX = "c" * 64, "5" * 64


class Node:
    """A host, a clock and the collector under test; each `tick` is a second after the previous one."""

    def __init__(self, root, version, descriptors, driver=CGROUPFS):
        self.host = PlainHost(root, version, driver)
        self.clock = Clock()
        self.budget = DescriptorBudget(descriptors)
        self.statistics = CollectStatistics()
        self.usage = PodUsageCollector(
            CgroupDiscovery(self.host.host_root.cgroup_root),
            self.budget,
            self.statistics,
            self.clock,
        )

    def tick(self, seconds=1.0, **options):
        self.clock.advance(seconds)
        return collected(self.usage, **options)


@pytest.fixture(params=[V1, V2])
def version(request):
    return request.param


@pytest.fixture(params=[1000, 0], ids=["open", "reopened"])
def node(request, tmp_path, version):
    node = Node(tmp_path, version, request.param)
    node.host.set_group(node.host.pod("a"), 10.0, 100 * MIB)
    node.host.set_group(node.host.container("a", CID), 9.0, 80 * MIB)
    yield node
    node.usage.close()
    assert node.budget.open_files == 0


def grow(node, cpu_seconds, memory_bytes=100 * MIB):
    node.host.set_group(node.host.pod("a"), cpu_seconds, memory_bytes)


def test_the_first_reading_of_a_pod_is_no_sample_and_leaves_the_sum_unknown(node):
    first = node.tick()
    assert (first.pods, first.no_data) == ({}, ())
    assert first.unmeasured_pods == {"a"}
    assert not first.are_pods_complete


def test_usage_is_the_rate_since_the_previous_tick_and_the_present_memory(node):
    node.tick()
    grow(node, 10.5, 120 * MIB)
    second = node.tick(seconds=2.0)
    assert second.pods == {"a": UsageSample(0.25, 120 * MIB)}
    assert second.are_pods_complete


def test_the_memory_of_pods_is_read_every_few_ticks_in_turns(node):
    for name in "bcdef":
        node.host.set_group(node.host.pod(name), 10.0, 100 * MIB)
    for _ in range(POD_MEMORY_TICKS):
        node.tick()
    reads = []
    for number in range(2, 14):
        for name in "abcdef":
            node.host.set_group(node.host.pod(name), 10.0, number * 100 * MIB)
        found = node.tick().pods
        reads.append({name for name in "abcdef" if found[name].memory_bytes == number * 100 * MIB})
        if number > POD_MEMORY_TICKS:
            ages = {number - found[name].memory_bytes // (100 * MIB) for name in "abcdef"}
            assert ages == set(range(POD_MEMORY_TICKS))
    assert [len(each) for each in reads] == [6 / POD_MEMORY_TICKS] * 12
    assert all(set().union(*reads[i : i + POD_MEMORY_TICKS]) == set("abcdef") for i in range(10))


def test_another_memory_policy_is_followed_in_the_same_tick(node):
    node.tick()
    without = node.tick().pods["a"].memory_bytes
    assert node.tick(counts_page_cache=True).pods["a"].memory_bytes > without
    assert node.tick(counts_page_cache=False).pods["a"].memory_bytes == without


def test_a_pod_counts_by_its_own_group_not_by_the_sum_of_its_containers(node):
    node.tick()
    node.host.set_group(node.host.container("a", CID), 9.5, 80 * MIB)
    assert node.tick().pods["a"].cpu_cores == 0.0


def test_a_new_pod_is_unmeasured_for_one_tick(node):
    node.tick()
    node.host.set_group(node.host.pod("b", BESTEFFORT), 1.0, MIB)
    measured = node.tick()
    assert (measured.pods.keys(), measured.unmeasured_pods, measured.are_pods_complete) == ({"a"}, {"b"}, False)
    measured = node.tick()
    assert (measured.pods.keys(), measured.unmeasured_pods, measured.are_pods_complete) == (
        {"a", "b"},
        frozenset(),
        True,
    )


def test_a_pod_that_went_away_leaves_the_sum_unknown_for_one_tick(node):
    node.host.set_group(node.host.pod("b"), 1.0, MIB)
    node.tick()
    node.tick()
    node.host.remove_group(node.host.pod("b"))
    gone = node.tick()
    assert (gone.pods.keys(), gone.unmeasured_pods, gone.no_data, gone.are_pods_complete) == (
        {"a"},
        frozenset(),
        (),
        False,
    )
    assert node.tick().are_pods_complete


def test_a_counter_that_went_back_is_no_sample_with_a_reason(node, version):
    node.tick()
    grow(node, 1.0)
    measured = node.tick()
    assert (measured.pods, measured.unmeasured_pods, measured.are_pods_complete) == ({}, {"a"}, False)
    (no_data,) = measured.no_data
    file = "cpuacct.usage" if version == V1 else "cpu.stat"
    assert no_data.path.endswith(f"kubepods/burstable/poda/{file}")
    assert (no_data.source, no_data.reason) == ("pod cpu", "the counter went back")
    grow(node, 1.5)
    assert node.tick().pods["a"].cpu_cores == 0.5


def test_more_memory_than_the_machine_has_is_no_sample_with_a_reason(node):
    below_zero = 2**64 - 4096
    node.tick()
    grow(node, 10.5, below_zero)
    measured = node.tick(machine_bytes=100 * MIB)
    assert (measured.pods, measured.unmeasured_pods, measured.are_pods_complete) == ({}, {"a"}, False)
    (no_data,) = measured.no_data
    assert no_data.path.endswith("kubepods/burstable/poda/memory.stat")
    assert no_data.source == "pod memory"
    assert no_data.reason == f"{below_zero} bytes in use, want at most the machine's {100 * MIB}"
    grow(node, 11.0, 100 * MIB)
    assert node.tick(machine_bytes=100 * MIB).pods == {"a": UsageSample(0.5, 100 * MIB)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "memory.stat has no number for "),
        ("anon 5\n", "memory.stat has no number for "),
        ("oom\n", "memory.stat has no number for "),
    ],
)
def test_invalid_memory_is_no_sample_and_never_zero(node, text, reason):
    node.tick()
    node.host.write(node.host.pod("a"), "memory.stat", text)
    measured = node.tick()
    assert (measured.pods, measured.unmeasured_pods) == ({}, {"a"})
    (no_data,) = measured.no_data
    assert no_data.source == "pod memory"
    assert no_data.reason.startswith(reason)
    assert node.statistics.sources["pod memory"].failures == 1


def test_a_group_without_the_memory_controller_names_the_missing_file(tmp_path, version):
    node = Node(tmp_path, version, 100)
    node.host.set_group(node.host.pod("a"), 1.0, MIB)
    node.host.remove_file(node.host.pod("a"), "memory.stat")
    node.tick()
    measured = node.tick()
    assert measured.unmeasured_pods == {"a"}
    assert [(one.source, one.reason) for one in measured.no_data] == [("pod memory", "No such file or directory")]
    assert measured.no_data[0].path.endswith("poda/memory.stat")
    node.usage.close()


def make_unreadable(node):
    node.host.write(node.host.pod("a"), "memory.stat", "")


def test_a_pod_that_stays_unreadable_counts_as_system_and_stays_named(node):
    node.tick()
    make_unreadable(node)
    for _ in range(MOST_UNMEASURED_TICKS - 1):  # the first tick had no sample either
        measured = node.tick()
        assert (measured.unmeasured_pods, measured.pods_in_system, measured.are_pods_complete) == (
            {"a"},
            frozenset(),
            False,
        )
    measured = node.tick()
    assert (measured.unmeasured_pods, measured.pods_in_system) == (frozenset(), {"a"})
    assert measured.are_pods_complete
    assert len(measured.no_data) == 1
    assert node.statistics.pods_in_system == 1
    grow(node, 11.0)
    measured = node.tick()
    assert (measured.pods.keys(), measured.pods_in_system, measured.are_pods_complete) == ({"a"}, frozenset(), True)
    make_unreadable(node)
    assert node.tick().unmeasured_pods == {"a"}, "the count starts again"


def without_memory_group(tmp_path):
    node = Node(tmp_path, V1, 100)
    node.host.set_group(node.host.pod("a"), 1.0, MIB)
    node.host.set_group(node.host.pod("left-over"), 1.0, MIB)
    shutil.rmtree(node.host.memory_mount / node.host.pod("left-over"))
    return node


@pytest.mark.parametrize("bound", [None, {"left-over"}])
def test_a_pod_without_a_memory_group_is_named_once_that_lasts(tmp_path, bound):
    node = without_memory_group(tmp_path)
    for _ in range(MOST_UNMEASURED_TICKS):
        measured = node.tick(bound_pods=bound)
        assert (measured.unmeasured_pods, measured.no_data, measured.are_pods_complete) == (
            measured.unmeasured_pods | {"left-over"},
            (),
            False,
        )
    measured = node.tick(bound_pods=bound)
    assert (measured.pods.keys(), measured.pods_in_system, measured.are_pods_complete) == ({"a"}, {"left-over"}, True)
    assert [each.source for each in measured.no_data] == ["pod memory"]
    node.usage.close()


def test_a_group_of_no_bound_pod_without_a_memory_group_is_left_out(tmp_path):
    node = without_memory_group(tmp_path)
    for _ in range(MOST_UNMEASURED_TICKS + 1):
        measured = node.tick(bound_pods={"a"})
    assert (measured.pods.keys(), measured.unmeasured_pods, measured.pods_in_system) == (
        {"a"},
        frozenset(),
        frozenset(),
    )
    assert (measured.no_data, measured.are_pods_complete) == ((), True)
    assert (node.statistics.pods_in_system, node.statistics.orphan_groups) == (0, 1)
    node.usage.close()


@pytest.mark.parametrize("descriptors", [0, 100])
def test_a_pod_whose_memory_group_ends_first_is_no_fault(tmp_path, descriptors):
    node = Node(tmp_path, V1, descriptors)
    node.host.set_group(node.host.pod("a"), 1.0, MIB)
    node.tick()
    shutil.rmtree(node.host.memory_mount / node.host.pod("a"))
    node.usage.close()
    ending = [node.tick() for _ in range(2)]
    shutil.rmtree(node.host.cpu_mount / node.host.pod("a"))
    ended = [node.tick() for _ in range(2)]
    assert [each.no_data for each in (*ending, *ended)] == [()] * 4
    assert node.statistics.sources["pod memory"].failures == 0
    assert ended[-1].are_pods_complete
    node.usage.close()


def test_a_group_recreated_under_the_same_name_starts_again(tmp_path, version):
    node = Node(tmp_path, version, 0)
    node.host.set_group(node.host.pod("a"), 10.0, MIB)
    node.tick()
    replacement = tmp_path / "replacement"
    file = "cpuacct.usage" if version == V1 else "cpu.stat"
    replacement.write_text("99000000000\n" if version == V1 else "usage_usec 99000000\n")
    replacement.rename(node.host.cpu_mount / node.host.pod("a") / file)
    measured = node.tick()
    assert (measured.pods, measured.unmeasured_pods, measured.no_data) == ({}, {"a"}, ())


def test_a_host_without_cgroups_has_a_reason_and_recovers(tmp_path):
    node = Node(tmp_path, V2, 10)
    node.host.set_group(node.host.pod("a"), 10.0, MIB)
    node.tick()
    node.tick()
    controllers = node.host.host_root.cgroup_root / "cgroup.controllers"
    text = controllers.read_text()
    controllers.unlink()
    lost = node.tick(seconds=60.0)
    assert (lost.pods, lost.are_pods_complete) == ({}, False)
    assert [no_data.source for no_data in lost.no_data] == ["cgroup controllers"]
    assert node.budget.open_files == 0
    controllers.write_text(text)
    assert node.tick(seconds=60.0).unmeasured_pods == {"a"}
    assert node.tick().pods.keys() == {"a"}


def test_descriptors_and_groups_are_counted(tmp_path):
    node = Node(tmp_path, V2, 3)
    node.host.set_group(node.host.pod("a"), 1.0, MIB)
    node.host.set_group(node.host.container("a", CID), 1.0, MIB)
    node.host.set_group(node.host.pod("b"), 1.0, MIB)
    for _ in range(POD_MEMORY_TICKS):
        node.tick()
    assert (node.statistics.groups, node.statistics.open_files) == (2, 3)
    node.usage.close()


@pytest.mark.parametrize("folder", ["", "system.slice", "system.slice/containerd.service"])
def test_a_pod_with_containers_outside_its_group_is_unmeasured_with_the_fix(tmp_path, version, folder):
    node = Node(tmp_path, version, 10, SYSTEMD)
    for uid in ("a", "b"):
        node.host.set_group(node.host.pod(uid), 1.0, MIB)
    node.host.set_group(Path(folder) / f"kubepods-burstable-poda.slice:cri-containerd:{CID}", 5.0, MIB)
    node.tick()
    measured = node.tick()
    assert (measured.pods.keys(), measured.unmeasured_pods, measured.are_pods_complete) == ({"b"}, {"a"}, False)
    (no_data,) = measured.no_data
    assert no_data.path.endswith(f"poda.slice:cri-containerd:{CID}")
    assert "set SystemdCgroup = true" in no_data.reason
    for _ in range(MOST_UNMEASURED_TICKS):
        measured = node.tick()
    assert (measured.pods_in_system, measured.are_pods_complete, len(measured.no_data)) == ({"a"}, True, 1)
    node.usage.close()


def replaced_each_tick(node, ticks):
    """Return whether the sum is known in each tick, in which one pod ends and another one begins."""
    known = []
    for number in range(ticks):
        node.host.set_group(node.host.pod(f"short-{number}"), 1.0, MIB)
        if number:
            node.host.remove_group(node.host.pod(f"short-{number - 1}"))
        known.append(node.tick().are_pods_complete)
    return known


def test_short_pods_one_after_the_other_count_as_system_after_ten_ticks(tmp_path):
    node = Node(tmp_path, V2, 100)
    node.host.set_group(node.host.pod("a"), 1.0, MIB)
    node.tick()
    node.tick()
    known = replaced_each_tick(node, 2 * MOST_UNMEASURED_TICKS)
    assert known.index(True) == MOST_UNMEASURED_TICKS
    assert known[MOST_UNMEASURED_TICKS] is True
    node.usage.close()
