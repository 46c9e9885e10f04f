"""Tests of the fallback levels and of the scores of each plugin on them (G4, G5, G6, G19)."""

from __future__ import annotations

import pytest

from scheduler_plugin.plugins.trimaran.node_columns import FallbackLevel
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import NOW, MeasuredCluster, metrics, pod

PLUGINS = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment")


@pytest.fixture(params=PLUGINS)
def cluster(request: pytest.FixtureRequest) -> MeasuredCluster:
    measured = MeasuredCluster(request.param)
    for name in ("a", "b"):
        measured.node(name)
        measured.place(name, pod("1", "1Gi"))
    return measured


def test_g4_reads_a_node_that_the_longest_window_lacks_from_a_shorter_one(cluster: MeasuredCluster) -> None:
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)}, duration="5m")
    cluster.measure({"a": metrics(20, 20)}, duration="15m")
    assert cluster.fallback_levels(["a", "b"]) == [FallbackLevel.MEASURED, FallbackLevel.MEASURED]


def test_g4_uses_an_earlier_snapshot_for_five_minutes(cluster: MeasuredCluster) -> None:
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)}, age_seconds=200)
    cluster.measure({"a": metrics(20, 20)})
    assert cluster.fallback_levels(["a", "b"]) == [FallbackLevel.MEASURED, FallbackLevel.MEASURED]
    assert cluster.fallback_levels(["a", "b"], NOW + 101) == [FallbackLevel.MEASURED, FallbackLevel.UNKNOWN]


def test_g4_a_node_without_agent_gets_the_lowest_score(cluster: MeasuredCluster) -> None:
    cluster.measure({"a": metrics(20, 20)})
    measured, unknown = cluster.scores(pod("500m", "1Gi"), ["a", "b"])
    assert measured > unknown == 0


def test_g5_without_any_provider_scores_best_fit_by_requests(cluster: MeasuredCluster) -> None:
    cluster.place("b", pod("2", "2Gi", limit_cpu="2"))
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)}, age_seconds=301)
    assert cluster.fallback_levels(["a", "b"]) == [FallbackLevel.BY_REQUESTS, FallbackLevel.BY_REQUESTS]
    if cluster.plugin.name != "LowRiskOverCommitment":
        assert cluster.scores(pod("1", "1Gi"), ["a", "b"]) == [50, 100]
        assert cluster.scores(pod("2", "1Gi"), ["a", "b"])[1] == 0  # it would not fit


def test_levels_fall_back_and_recover(cluster: MeasuredCluster) -> None:
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)})
    assert cluster.fallback_levels(["a"]) == [FallbackLevel.MEASURED]
    assert cluster.fallback_levels(["a"], NOW + 300) == [FallbackLevel.MEASURED]
    assert cluster.fallback_levels(["a"], NOW + 301) == [FallbackLevel.BY_REQUESTS]
    cluster.measure({"a": metrics(20, 20)}, age_seconds=-600)
    assert cluster.fallback_levels(["a", "b"], NOW + 600) == [FallbackLevel.MEASURED, FallbackLevel.UNKNOWN]
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)}, age_seconds=-660)
    assert cluster.fallback_levels(["a", "b"], NOW + 660) == [FallbackLevel.MEASURED, FallbackLevel.MEASURED]


def test_the_first_data_after_an_outage_ends_the_scores_by_requests_of_nodes_without_data(
    cluster: MeasuredCluster,
) -> None:
    assert cluster.scores(pod("500m", "1Gi"), ["b"]) != [0]
    cluster.measure({"a": metrics(20, 20)})
    assert cluster.scores(pod("500m", "1Gi"), ["b"]) == [0]


def test_g6_an_empty_new_node_is_not_avoided_and_one_with_new_pods_is_predicted(cluster: MeasuredCluster) -> None:
    cluster.node("empty")
    cluster.node("filling")
    cluster.place("filling", pod("1", "1Gi"), age_seconds=200)
    cluster.measure({"a": metrics(90, 90)})
    assert cluster.fallback_levels(["empty", "filling", "b"]) == [
        FallbackLevel.PREDICTED,
        FallbackLevel.PREDICTED,
        FallbackLevel.UNKNOWN,
    ]
    empty, filling, unknown = cluster.scores(pod("500m", "1Gi"), ["empty", "filling", "b"])
    assert min(empty, filling) > unknown == 0


def test_g19_uses_limits_without_measurements() -> None:
    cluster = MeasuredCluster("LowRiskOverCommitment")
    for name in ("overcommitted", "modest"):
        cluster.node(name)
    cluster.place("overcommitted", pod("1", "1Gi", limit_cpu="8"))
    cluster.place("modest", pod("1", "1Gi", limit_cpu="1"))
    overcommitted, modest = cluster.scores(pod("1", "1Gi", limit_cpu="1"), ["overcommitted", "modest"])
    assert overcommitted < modest == 100
