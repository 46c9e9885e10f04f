from __future__ import annotations

import pytest

from scheduler_plugin.config.loader import InvalidConfiguration
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster, metrics, pod

POLICY = "LowRiskOverCommitment"


def kep_story_1(formula: str) -> list[int]:
    """Two nodes of 4 cores, each used 3.6 +- 1.2 of them; limits promise 9 on one and 6 on the other."""
    cluster = MeasuredCluster(POLICY, formula=formula, smoothingWindowSize=1)
    for name in ("I", "II"):
        cluster.node(name)
    for _pod in range(2):
        cluster.place("I", pod("1", limit_cpu="3"))
    for spec in (pod("1", limit_cpu="3"), pod("900m"), pod("100m")):
        cluster.place("II", spec)
    cluster.measure({name: metrics(90.0, cpu_std=30.0) for name in ("I", "II")})
    return cluster.scores(pod("1", limit_cpu="3"), ["I", "II"])


@pytest.mark.parametrize(("formula", "scores"), [("kep", [13, 22]), ("upstream", [13, 17]), ("corrected", [13, 17])])
def test_the_first_story_of_kep_357_comes_out_as_the_reference_says(formula: str, scores: list[int]) -> None:
    assert kep_story_1(formula) == scores


def test_where_limits_promise_more_than_there_is_the_risk_is_larger() -> None:
    cluster = MeasuredCluster(POLICY)
    for name in ("promised", "modest"):
        cluster.node(name)
        cluster.place(name, pod("1", "1Gi", limit_cpu="8" if name == "promised" else "1"))
    cluster.measure({name: metrics(20, 20, 2, 2) for name in ("promised", "modest")})
    promised, modest = cluster.scores(pod("500m", "1Gi", limit_cpu="500m"), ["promised", "modest"])
    assert promised < modest


@pytest.mark.parametrize(("formula", "avoids"), [("corrected", True), ("upstream", False)])
def test_b14_a_hot_node_whose_pods_declare_nothing_is_a_risk(formula: str, avoids: bool) -> None:
    cluster = MeasuredCluster(POLICY, formula=formula)
    for name in ("hot", "cool"):
        cluster.node(name)
        cluster.place(name, pod())
    cluster.measure({"hot": metrics(90, 20, 5, 1), "cool": metrics(1, 1, 0, 0)})
    hot, cool = cluster.scores(pod("500m", "1Gi"), ["hot", "cool"])
    assert (hot < 60) is avoids
    assert hot <= cool


@pytest.mark.parametrize(("formula", "is_ranked"), [("corrected", True), ("kep", True), ("upstream", False)])
def test_g18_a_best_effort_pod_is_ranked_too(formula: str, is_ranked: bool) -> None:
    cluster = MeasuredCluster(POLICY, formula=formula)
    for name in ("promised", "modest"):
        cluster.node(name)
        cluster.place(name, pod("1", "1Gi", limit_cpu="8" if name == "promised" else "1"))
    cluster.measure({name: metrics(10, 10, 1, 1) for name in ("promised", "modest")})
    promised, modest = cluster.scores(pod(), ["promised", "modest"])
    assert (promised < modest) is is_ranked
    assert is_ranked or promised == modest == 0


def test_weights_choose_between_limits_and_load() -> None:
    def scores(weight: float) -> list[int]:
        cluster = MeasuredCluster(POLICY, riskLimitWeights={"cpu": weight, "memory": weight})
        for name in ("promised", "busy"):
            cluster.node(name)
        cluster.place("promised", pod("1", "1Gi", limit_cpu="12"))
        cluster.place("busy", pod("1", "1Gi", limit_cpu="4"))
        cluster.measure({"promised": metrics(5, 5, 1, 1), "busy": metrics(80, 5, 10, 1)})
        return cluster.scores(pod("100m", "100Mi", limit_cpu="100m"), ["promised", "busy"])

    assert scores(1.0)[0] < scores(1.0)[1]
    assert scores(0.0)[0] > scores(0.0)[1]


def test_g20_the_smoothing_is_undone_as_the_provider_at_hand_needs_it() -> None:
    def score(**args: object) -> int:
        cluster = MeasuredCluster(POLICY, riskLimitWeight=0, **args)
        cluster.node("n")
        cluster.place("n", pod("2", "4Gi", limit_cpu="4"))
        cluster.measure({"n": metrics(40, 10, 5, 0)})
        return cluster.scores(pod("100m", "1Mi"), ["n"])[0]

    assert score(smoothingWindowSizes={"test": 20}) == score(smoothingWindowSize=20) < score(smoothingWindowSize=1)
    assert score(smoothingWindowSizes={"other": 20}) == score(smoothingWindowSize=5)


def test_the_name_and_the_scalar_of_the_kep_are_taken() -> None:
    cluster = MeasuredCluster("LoadRiskAwareCommitment", riskLimitWeight=0.25)
    assert cluster.policy.weights.tolist() == [[0.25], [0.25]]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"smoothingWindowSize": 0}, "smoothingWindowSize: seen 0, want 1 or more"),
        ({"riskLimitWeights": {"cpu": 1.1}}, "riskLimitWeights.cpu: seen 1.1, want 0..1"),
        ({"riskLimitWeights": {"gpu": 0.5}}, "riskLimitWeights.gpu: seen 0.5, want the keys cpu and memory only"),
    ],
)
def test_an_argument_outside_of_its_range_is_refused(args: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidConfiguration, match=problem):
        MeasuredCluster(POLICY, **args)
