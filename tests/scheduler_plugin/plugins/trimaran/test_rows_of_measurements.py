"""Rows of a node whose measurement is gone, and of a node with unreadable pods."""

import math

import pytest

from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import NOW, MeasuredCluster, metrics, pod

TINY = {"cpu": "2m", "memory": "2"}
"""So small that one milli-core, and one byte, are half of it."""


def test_nothing_is_left_of_a_measurement_that_is_too_old():
    cluster = MeasuredCluster("TargetLoadPacking")
    cluster.node("n")
    cluster.place("n", pod("1", "1Gi"))
    cluster.measure({"n": metrics(20, 30, 4, 5)})
    rows = cluster.parts.vectors.find(["n"])
    before = {name: column[..., 0].tolist() for name, column in cluster.plugin.columns.explained(rows).columns.items()}
    assert before["meanPercent"] == [20, 30]
    assert before["deviationPercent"] == [4, 5]
    assert before["windowEnd"] == [NOW, NOW]
    assert before["requested"] == [1000, 2**30]
    cluster.refresh(NOW + 1000)
    cluster.fallback_levels(["n"], NOW + 1000)
    after = {name: column[..., 0].tolist() for name, column in cluster.plugin.columns.explained(rows).columns.items()}
    assert after == {
        "meanPercent": [0, 0],
        "deviationPercent": [0, 0],
        "requested": [1000, 2**30],
        "windowEnd": [-math.inf, -math.inf],
        "fallbackLevel": [FallbackLevel.BY_REQUESTS] * 2,
    }


def test_an_unreadable_pod_that_was_placed_recently_counts_nothing():
    """Half of the node would cost 25 points of 100."""
    cluster = MeasuredCluster("LoadVariationRiskBalancing")
    cluster.node("n", capacity=TINY)
    cluster.place("n", pod("lots"), age_seconds=1)
    cluster.measure({"n": metrics(0, 0, 0, 0)})
    assert cluster.scores(pod(), ["n"]) == [100]


def test_a_recent_pod_counts_its_request_as_far_as_the_window_does_not_contain_it():
    cluster = MeasuredCluster("LoadVariationRiskBalancing")
    cluster.node("n", capacity=TINY)
    cluster.place("n", pod("1m"), age_seconds=450)
    cluster.measure({"n": metrics(0, 0, 0, 0)})
    # half of 15 minutes is contained, so half of 1 of 2 milli-cores is added: 100 * (1 - 0.25 / 2) = 87.5
    assert cluster.scores(pod(), ["n"]) == [88]


@pytest.mark.parametrize("changed", ["capacity", "pods"])
def test_a_row_is_rewritten_when_the_node_or_its_pods_change(changed):
    cluster = MeasuredCluster("TargetLoadPacking", targetUtilization=50)
    cluster.node("n")
    cluster.measure({"n": metrics(20, 20)})
    before = cluster.scores(pod(), ["n"])
    if changed == "capacity":
        cluster.node("n", capacity={"cpu": "8", "memory": "8Gi"}, allocatable={"cpu": "4", "memory": "8Gi"})
    else:
        cluster.place("n", pod("1", limit_cpu="1"), age_seconds=1)
    assert cluster.scores(pod(), ["n"]) != before


def test_a_row_whose_inputs_are_the_same_is_not_written_again():
    cluster = MeasuredCluster("TargetLoadPacking")
    cluster.node("n")
    cluster.measure({"n": metrics(20, 20)})
    (entry,), columns = cluster.parts.cluster.entries.values(), cluster.plugin.columns
    before = columns.version
    assert columns.write(entry) is False
    assert columns.version == before
    cluster.place("n", pod("1"))
    assert columns.version > before
    assert columns.write(entry) is False
