"""One pod that cannot be measured costs that pod, and not the prediction of the node: from its files to the report."""

from __future__ import annotations

import shutil

import pytest

from koordlet.collectors.pod_usage import MOST_UNMEASURED_TICKS
from koordlet.metric_cache.series import PROD
from koordlet.samples import PROD_AND_UNRESERVED_SYSTEM, SYSTEM, UNRESERVED_SYSTEM
from tests.host_trees.plain_files import V1, V2
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod

pytestmark = pytest.mark.slow

SUMS = {PROD, SYSTEM, UNRESERVED_SYSTEM, PROD_AND_UNRESERVED_SYSTEM}
WARM_AT_ONCE = {"predictPolicy": {"coldStartPeriodSeconds": 0}}


def started(tmp_path, version, *names):
    cluster = StaticCluster(bound_pod("a"), bound_pod("b"), spec=WARM_AT_ONCE)
    node = OneNode(tmp_path, cluster, version)
    node.pod_cores = dict.fromkeys(names, 0.5)
    node.run(90)
    return node


def test_an_orphaned_group_of_one_hierarchy_changes_nothing(tmp_path):
    """A group of a pod that ended stays in cpuacct and not in memory: an ordinary leak of cgroups v1."""
    node = started(tmp_path, V1, "a", "b")
    before = node.report()
    node.host.set_group(node.host.pod("dead"), 0.0, 0)
    shutil.rmtree(node.host.memory_mount / node.host.pod("dead"))
    node.run(330)
    after = node.report()
    assert node.observer.newest.keys() >= SUMS
    assert after["prodPeakMetric"] == before["prodPeakMetric"]
    assert node.condition("SourceDegraded")["status"] == "False"
    assert node.condition("PredictionDegraded")["reason"] == "Predicting"
    assert node.observer.collector.statistics.orphan_groups == 1


@pytest.mark.parametrize("version", [V1, V2])
def test_a_bound_pod_that_stays_unreadable_is_charged_its_request_and_named(tmp_path, version):
    node = started(tmp_path, version, "a", "b")
    before = node.report()["prediction"]
    assert (before["warmPods"], before["coldPods"]) == (2, 0)

    def spoil():
        node.host.write(node.host.pod("b"), "memory.stat", "nonsense\n")

    node.run(330, spoil)
    assert node.observer.newest.keys() >= SUMS
    report = node.report()
    assert (report["prediction"]["warmPods"], report["prediction"]["coldPods"]) == (1, 1)
    assert report["prediction"]["prod"]["coldRequests"] == {"cpu": "1", "memory": str(GIB)}
    assert report["usage"]["system"]["cpu"] == "3500m", "its half core is part of the system"
    condition = node.condition("SourceDegraded")
    assert (condition["status"], condition["reason"]) == ("True", "NoData")
    assert "1 pods cannot be measured" in condition["message"]
    assert f"{node.host.pod('b')}/memory.stat" in condition["message"]
    node.run(2)
    assert node.report()["prediction"]["coldPods"] == 0, "readable again: warm by what was recorded before"
    assert node.condition("SourceDegraded")["status"] == "False"


def test_a_new_pod_hides_the_system_for_one_tick_and_is_never_named(tmp_path):
    node = started(tmp_path, V1, "a")
    assert SYSTEM in node.observer.newest
    node.pod_cores["b"] = 0.5
    node.run(1)
    assert SYSTEM not in node.observer.newest
    assert node.condition("SourceDegraded")["status"] == "False"
    node.run(1)
    assert SYSTEM in node.observer.newest
    assert not node.observer.pods_in_system


def test_pods_that_start_one_after_the_other_hide_the_system_for_a_few_ticks_only(tmp_path):
    """Each is unmeasured for one tick only, however many there are."""
    node = started(tmp_path, V1, "a")
    for number in range(3 * MOST_UNMEASURED_TICKS):
        node.pod_cores[f"job-{number}"] = 0.01
        node.run(1)
        assert not node.observer.pods_in_system
        assert (SYSTEM in node.observer.newest) == (number >= MOST_UNMEASURED_TICKS)
    assert node.observer.newest.keys() >= SUMS
    node.run(1)
    node.pod_cores["last"] = 0.01
    node.run(1)
    assert SYSTEM not in node.observer.newest


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("pause", [0, 1])
def test_short_pods_one_after_the_other_do_not_end_the_prediction(tmp_path, version, pause):
    node = started(tmp_path, version, "a")
    before = node.report()["prodPeakMetric"]
    for number in range(400 // (1 + pause)):
        name = f"job-{number}"
        node.pod_cores[name], node.pod_bytes[name] = 0.01, 0
        node.run(1)
        del node.pod_cores[name]
        node.host.remove_group(node.host.pod(name))
        node.run(pause)
    assert node.condition("PredictionDegraded")["reason"] == "Predicting"
    assert node.report()["prodPeakMetric"] == before


def test_a_pod_that_cannot_be_read_for_a_moment_counts_as_system_as_late_beside_short_pods_as_without(tmp_path):
    node = started(tmp_path, V2, "a", "b")

    def spoil():
        node.host.write(node.host.pod("b"), "cpu.stat", "nonsense\n")

    for number in range(3 * MOST_UNMEASURED_TICKS):
        node.pod_cores[f"job-{number}"] = 0.01
        is_spoilt = number >= 2 * MOST_UNMEASURED_TICKS
        node.run(1, *([spoil] if is_spoilt else []))
        assert (SYSTEM in node.observer.newest) == (number >= MOST_UNMEASURED_TICKS and not is_spoilt)
