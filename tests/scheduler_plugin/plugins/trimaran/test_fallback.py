"""The rungs, walked down and up, and what each policy makes of them (G4, G5, G6, G19)."""

from __future__ import annotations

import pytest

from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import NOW, MeasuredCluster, metrics, pod

POLICIES = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment")


@pytest.fixture(params=POLICIES)
def cluster(request: pytest.FixtureRequest) -> MeasuredCluster:
    measured = MeasuredCluster(request.param)
    for name in ("a", "b"):
        measured.node(name)
        measured.place(name, pod("1", "1Gi"))
    return measured


def test_g4_a_node_that_the_longest_window_lacks_is_read_from_a_shorter_one(cluster: MeasuredCluster) -> None:
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)}, duration="5m")
    cluster.measure({"a": metrics(20, 20)}, duration="15m")
    assert cluster.rungs(["a", "b"]) == [FallbackLevel.MEASURED, FallbackLevel.MEASURED]


def test_g4_an_earlier_snapshot_serves_for_five_minutes(cluster: MeasuredCluster) -> None:
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)}, age_seconds=200)
    cluster.measure({"a": metrics(20, 20)})
    assert cluster.rungs(["a", "b"]) == [FallbackLevel.MEASURED, FallbackLevel.MEASURED]
    assert cluster.rungs(["a", "b"], NOW + 101) == [FallbackLevel.MEASURED, FallbackLevel.UNKNOWN]


def test_g4_a_node_whose_agent_failed_gets_the_lowest_score(cluster: MeasuredCluster) -> None:
    cluster.measure({"a": metrics(20, 20)})
    measured, unknown = cluster.scores(pod("500m", "1Gi"), ["a", "b"])
    assert measured > unknown == 0


def test_how_old_a_measurement_may_be_is_a_setting() -> None:
    impatient = MeasuredCluster("TargetLoadPacking", measurement_age_seconds=20)
    impatient.node("a")
    impatient.measure({"a": metrics(20, 20)})
    assert impatient.rungs(["a"], NOW + 20) == [FallbackLevel.MEASURED]
    assert impatient.rungs(["a"], NOW + 21) == [FallbackLevel.BY_REQUESTS]


def test_g5_when_every_provider_is_gone_requests_decide_best_fit_first(cluster: MeasuredCluster) -> None:
    cluster.place("b", pod("2", "2Gi", limit_cpu="2"))
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)}, age_seconds=301)
    assert cluster.rungs(["a", "b"]) == [FallbackLevel.BY_REQUESTS, FallbackLevel.BY_REQUESTS]
    if cluster.policy.name != "LowRiskOverCommitment":
        assert cluster.scores(pod("1", "1Gi"), ["a", "b"]) == [50, 100]
        assert cluster.scores(pod("2", "1Gi"), ["a", "b"])[1] == 0  # it would not fit


def test_the_ladder_is_walked_down_and_up_again(cluster: MeasuredCluster) -> None:
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)})
    assert cluster.rungs(["a"]) == [FallbackLevel.MEASURED]
    assert cluster.rungs(["a"], NOW + 300) == [FallbackLevel.MEASURED]
    assert cluster.rungs(["a"], NOW + 301) == [FallbackLevel.BY_REQUESTS]
    cluster.measure({"a": metrics(20, 20)}, age_seconds=-600)
    assert cluster.rungs(["a", "b"], NOW + 600) == [FallbackLevel.MEASURED, FallbackLevel.UNKNOWN]
    cluster.measure({"a": metrics(20, 20), "b": metrics(20, 20)}, age_seconds=-660)
    assert cluster.rungs(["a", "b"], NOW + 660) == [FallbackLevel.MEASURED, FallbackLevel.MEASURED]


def test_g6_an_empty_new_node_is_not_avoided_and_one_with_new_pods_is_predicted(cluster: MeasuredCluster) -> None:
    cluster.node("empty")
    cluster.node("filling")
    cluster.place("filling", pod("1", "1Gi"), age_seconds=200)
    cluster.measure({"a": metrics(90, 90)})
    assert cluster.rungs(["empty", "filling", "b"]) == [
        FallbackLevel.PREDICTED,
        FallbackLevel.PREDICTED,
        FallbackLevel.UNKNOWN,
    ]
    empty, filling, unknown = cluster.scores(pod("500m", "1Gi"), ["empty", "filling", "b"])
    assert min(empty, filling) > unknown == 0


def test_g19_limits_are_heeded_while_nothing_is_measured() -> None:
    cluster = MeasuredCluster("LowRiskOverCommitment")
    for name in ("promised", "modest"):
        cluster.node(name)
    cluster.place("promised", pod("1", "1Gi", limit_cpu="8"))
    cluster.place("modest", pod("1", "1Gi", limit_cpu="1"))
    promised, modest = cluster.scores(pod("1", "1Gi", limit_cpu="1"), ["promised", "modest"])
    assert promised < modest == 100


def test_the_rung_of_each_node_is_part_of_what_explains_a_decision(cluster: MeasuredCluster) -> None:
    cluster.measure({"a": metrics(20, 30, 4)})
    spec = pod("500m", "1Gi")
    cluster.scores(spec, ["a", "b"])
    told = cluster.policy.explain(None, cluster.parts.vectors.find(["a", "b"])).columns
    assert told["rung"].tolist() == [FallbackLevel.MEASURED, FallbackLevel.UNKNOWN]
    assert told["meanPercent"][:, 0].tolist() == [20, 30]
    assert told["deviationPercent"][0, 0] == 4
    assert told["windowEnd"][0] == NOW


def test_upstream_knows_no_ladder() -> None:
    cluster = MeasuredCluster("TargetLoadPacking", formula="upstream")
    cluster.node("new")
    assert cluster.scores(pod("500m"), ["new"]) == [0]
