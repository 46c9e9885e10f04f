from __future__ import annotations

import pytest

from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster, metrics, pod

PLUGIN = "LowRiskOverCommitment"


def kep_example_1(formula: str) -> list[int]:
    """Score two nodes of 4 cores with a usage of 3.6 +- 1.2 cores each; limits sum up to 9 and to 6 cores."""
    cluster = MeasuredCluster(PLUGIN, formula=formula, smoothingWindowSize=1)
    for name in ("I", "II"):
        cluster.node(name)
    for _pod in range(2):
        cluster.place("I", pod("1", limit_cpu="3"))
    for spec in (pod("1", limit_cpu="3"), pod("900m"), pod("100m")):
        cluster.place("II", spec)
    cluster.measure({name: metrics(90.0, cpu_std=30.0) for name in ("I", "II")})
    return cluster.scores(pod("1", limit_cpu="3"), ["I", "II"])


@pytest.mark.parametrize(("formula", "scores"), [("kep", [13, 22]), ("upstream", [13, 17]), ("corrected", [13, 17])])
def test_scores_the_first_example_of_kep_357(formula: str, scores: list[int]) -> None:
    assert kep_example_1(formula) == scores


@pytest.mark.parametrize(("formula", "avoids"), [("corrected", True), ("upstream", False)])
def test_b14_a_hot_node_with_best_effort_pods_is_a_risk(formula: str, avoids: bool) -> None:
    cluster = MeasuredCluster(PLUGIN, formula=formula)
    for name in ("hot", "cool"):
        cluster.node(name)
        cluster.place(name, pod())
    cluster.measure({"hot": metrics(90, 20, 5, 1), "cool": metrics(1, 1, 0, 0)})
    hot, cool = cluster.scores(pod("500m", "1Gi"), ["hot", "cool"])
    assert (hot < 60) is avoids
    assert hot <= cool


@pytest.mark.parametrize(("formula", "is_ranked"), [("corrected", True), ("kep", True), ("upstream", False)])
def test_g18_ranks_nodes_for_a_best_effort_pod(formula: str, is_ranked: bool) -> None:
    cluster = MeasuredCluster(PLUGIN, formula=formula)
    for name in ("overcommitted", "modest"):
        cluster.node(name)
        cluster.place(name, pod("1", "1Gi", limit_cpu="8" if name == "overcommitted" else "1"))
    cluster.measure({name: metrics(10, 10, 1, 1) for name in ("overcommitted", "modest")})
    overcommitted, modest = cluster.scores(pod(), ["overcommitted", "modest"])
    assert (overcommitted < modest) is is_ranked
    assert is_ranked or overcommitted == modest == 0


def test_g20_uses_the_smoothing_window_of_the_provider() -> None:
    def score(**args: object) -> int:
        cluster = MeasuredCluster(PLUGIN, riskLimitWeight=0, **args)
        cluster.node("n")
        cluster.place("n", pod("2", "4Gi", limit_cpu="4"))
        cluster.measure({"n": metrics(40, 10, 5, 0)})
        return cluster.scores(pod("100m", "1Mi"), ["n"])[0]

    assert (
        score(smoothingWindowSizes={"Prometheus": 20}) == score(smoothingWindowSize=20) < score(smoothingWindowSize=1)
    )
    assert score(smoothingWindowSizes={"SignalFx": 20}) == score(smoothingWindowSize=5)


def test_recently_placed_pods_do_not_attract_more() -> None:
    scores = []
    for count in range(4):
        cluster = MeasuredCluster(PLUGIN)
        cluster.node("n", capacity={"cpu": "8", "memory": "64Gi"})
        cluster.place("n", pod("2", "8Gi", limit_cpu="4"))
        for _recent in range(count):
            cluster.place("n", pod("1", "1Gi", limit_cpu="2"), age_seconds=0)
        cluster.measure({"n": metrics(24, 12, 5, 1)})
        scores += cluster.scores(pod("100m", "1Gi", limit_cpu="100m"), ["n"])
    assert scores == [79, 78, 76, 55]  # without their expected usage 79, 94, 98, 79
