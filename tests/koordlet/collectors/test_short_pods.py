"""Pods that come and go: until when the sum over pods is unknown, and what is counted of pods outside their groups."""

from pathlib import Path

from koordlet.collectors.cgroup.discovery import CgroupDiscovery
from koordlet.collectors.pod_usage import MOST_UNMEASURED_TICKS, PodUsage
from tests.host_trees.plain_files import MIB, SYSTEMD, V2
from tests.koordlet.collectors.test_pod_usage import CID, Node


def replaced_each_tick(node, ticks):
    """Return whether the sum is known in each tick, in which one pod ends and another one begins."""
    known = []
    for number in range(ticks):
        node.host.set_group(node.host.pod(f"short-{number}"), 1.0, MIB)
        if number:
            node.host.remove_group(node.host.pod(f"short-{number - 1}"))
        known.append(node.tick().complete)
    return known


def one_more_each_tick(node):
    """Return whether the sum is known in each tick, in which one pod begins."""
    known = []
    for number in range(MOST_UNMEASURED_TICKS + 2):
        node.host.set_group(node.host.pod(f"new-{number}"), 1.0, MIB)
        known.append(node.tick().complete)
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


def test_a_tick_that_is_complete_begins_the_count_again(tmp_path):
    node = Node(tmp_path, V2, 100)
    node.host.set_group(node.host.pod("a"), 1.0, MIB)
    node.tick()
    node.tick()
    for _ in range(3):
        assert replaced_each_tick(node, MOST_UNMEASURED_TICKS - 1) == [False] * (MOST_UNMEASURED_TICKS - 1)
        assert any(node.tick().complete for _ in range(3))
        node.host.remove_group(node.host.pod(f"short-{MOST_UNMEASURED_TICKS - 2}"))
        assert any(node.tick().complete for _ in range(3))
    node.usage.close()


def test_each_pod_with_containers_outside_its_group_is_a_failure_of_the_discovery(tmp_path):
    node = Node(tmp_path, V2, 10, SYSTEMD)
    for uid in ("a", "b", "c"):
        node.host.set_group(node.host.pod(uid), 1.0, MIB)
    for uid in ("a", "b"):
        node.host.set_group(Path(f"kubepods-burstable-pod{uid}.slice:cri-containerd:{CID}"), 5.0, MIB)
    for ticks in (1, 2, 3):
        node.tick()
        assert node.statistics.source("pod discovery").failures == 2 * ticks
    node.usage.close()


def test_new_pods_count_as_system_ten_ticks_after_the_start_of_an_agent(tmp_path):
    node = Node(tmp_path, V2, 100)
    assert one_more_each_tick(node) == [False] * MOST_UNMEASURED_TICKS + [True, True]
    node.usage.close()


def test_a_new_container_of_a_known_pod_is_followed_after_a_minute(tmp_path):
    node = Node(tmp_path, V2, 100)
    node.host.set_group(node.host.pod("a"), 1.0, MIB)
    node.tick()
    node.host.set_group(node.host.container("a", CID), 1.0, MIB)
    node.tick()
    assert len(node.usage.followed_groups.pods["a"]) == 1
    node.tick(seconds=60.0)
    assert node.usage.followed_groups.pods["a"][1:] == (str(node.host.container("a", CID)),)
    node.usage.close()


def test_new_pods_count_as_system_ten_ticks_after_the_last_complete_one(tmp_path):
    node = Node(tmp_path, V2, 100)
    node.host.set_group(node.host.pod("a"), 1.0, MIB)
    node.tick()
    assert node.tick().complete
    assert one_more_each_tick(node) == [False] * MOST_UNMEASURED_TICKS + [True, True]
    node.usage.close()


def test_containers_are_not_measured_by_default(tmp_path):
    node = Node(tmp_path, V2, 100)
    usage = PodUsage(CgroupDiscovery(node.host.host_root.cgroup_root), node.budget, node.statistics, node.clock)
    node.host.set_group(node.host.container("a", CID), 1.0, MIB)
    for _ in range(3):
        node.clock.advance(1.0)
        assert usage.measure().containers == {}
    assert node.statistics.groups == 1, "the pod"
    usage.close()
