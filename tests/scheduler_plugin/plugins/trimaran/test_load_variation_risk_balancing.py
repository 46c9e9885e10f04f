"""KEP-61's figure: mean and deviation of CPU, then of memory, of three nodes of 4 cores and 8 GB."""

from __future__ import annotations

import pytest

from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster, metrics, pod

PLUGIN = "LoadVariationRiskBalancing"


KEP_NODES = {"N1": (20.0, 80.0, 20.0, 60.0), "N2": (50.0, 1.0, 80.0, 0.05), "N3": (30.0, 10.0, 40.0, 5.0)}


def three_nodes(**args: object) -> list[int]:
    cluster = MeasuredCluster(PLUGIN, **args)
    for name in KEP_NODES:
        cluster.node(name, capacity={"cpu": "4", "memory": "8G"})
    cluster.measure(
        {
            name: metrics(cpu, memory, cpu_std, memory_std)
            for name, (cpu, cpu_std, memory, memory_std) in KEP_NODES.items()
        }
    )
    return cluster.scores(pod("500m", "1G"), list(KEP_NODES))


def test_scores_the_worked_example_of_kep_61_as_printed() -> None:
    assert three_nodes(formula="kep") == [0, 7, 43]


@pytest.mark.parametrize("formula", ["upstream", "corrected"])
def test_scores_the_example_of_kep_61_as_the_shipped_code_does(formula: str) -> None:
    assert three_nodes(formula=formula) == [44, 54, 71]


def test_prefers_the_steadier_of_two_nodes_with_the_same_mean() -> None:
    cluster = MeasuredCluster(PLUGIN)
    for name in ("steady", "swinging"):
        cluster.node(name)
    cluster.measure({"steady": metrics(50, 50, 1, 1), "swinging": metrics(50, 50, 30, 1)})
    steady, swinging = cluster.scores(pod("100m", "100Mi"), ["steady", "swinging"])
    assert steady > swinging


def test_g11_counts_a_recently_placed_pod_on_its_node() -> None:
    cluster = MeasuredCluster(PLUGIN)
    for name in ("a", "b"):
        cluster.node(name)
    cluster.place("a", pod("2", "1Gi"), age_seconds=20)
    cluster.measure({name: metrics(20, 20, 1, 1) for name in ("a", "b")})
    busy, free = cluster.scores(pod("500m", "1Gi"), ["a", "b"])
    assert busy < free


@pytest.mark.parametrize(("formula", "score"), [("corrected", 75), ("upstream", 88)])
def test_b16_pod_level_requests_count(formula: str, score: int) -> None:
    cluster = MeasuredCluster(PLUGIN, formula=formula)
    cluster.node("n")
    cluster.measure({"n": metrics(25, 0)})
    spec = {"containers": [{"name": "c"}], "resources": {"requests": {"cpu": "1"}}}
    assert cluster.scores(spec, ["n"]) == [score]
