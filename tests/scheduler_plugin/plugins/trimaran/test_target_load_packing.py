from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler_plugin.plugins.trimaran.measured_cluster import NOW, MeasuredCluster, metrics, pod

PLUGIN = "TargetLoadPacking"


def measured(percent: float = 20.0, **args: object) -> MeasuredCluster:
    cluster = MeasuredCluster(PLUGIN, **args)
    cluster.node("n")
    cluster.measure({"n": metrics(percent)})
    return cluster


def test_packs_onto_the_node_nearest_below_the_target() -> None:
    cluster = MeasuredCluster(PLUGIN, targetUtilization=70)
    loads = {"idle": 0.0, "half": 50.0, "full": 80.0}
    for name in loads:
        cluster.node(name)
    cluster.measure({name: metrics(load) for name, load in loads.items()})
    idle, half, full = cluster.scores(pod("400m", limit_cpu="400m"), list(loads))
    assert half > idle > full


def test_g11_counts_a_pod_placed_after_the_window_until_a_window_contains_it() -> None:
    cluster = measured(0.0)
    cluster.place("n", pod(limit_cpu="1600m"), age_seconds=0)
    assert cluster.scores(pod(limit_cpu="0"), ["n"]) == [100]
    cluster.measure({"n": metrics(20.0)}, age_seconds=-450)
    assert cluster.scores(pod(limit_cpu="0"), ["n"], NOW + 450) == [100]
    cluster.measure({"n": metrics(40.0)}, age_seconds=-900)
    assert cluster.scores(pod(limit_cpu="0"), ["n"], NOW + 900) == [100]


def test_b10_does_not_count_running_pods_twice() -> None:
    cluster = measured(40.0)
    cluster.place("n", pod(limit_cpu="2"), age_seconds=3600)
    assert cluster.scores(pod(limit_cpu="0"), ["n"]) == [100]


def test_b8_and_b9_removes_a_deleted_pod_with_or_without_uid() -> None:
    cluster = measured(0.0)
    by_uid = cluster.place("n", pod(limit_cpu="1600m"), age_seconds=10)
    by_name = cluster.place("n", pod(limit_cpu="1600m"), age_seconds=10)
    cluster.parts.cluster.pod_deleted("default", by_uid, by_uid)
    cluster.parts.cluster.pod_deleted("default", by_name)
    assert cluster.scores(pod(limit_cpu="0"), ["n"]) == [40]


def test_the_example_of_kep_61() -> None:
    cluster = MeasuredCluster("TargetLoadPacking", formula="kep", targetUtilization=50)
    loads = {"X": 25.0, "Y": 50.0, "Z": 75.0}
    for name in loads:
        cluster.node(name)
    cluster.measure({name: metrics(load) for name, load in loads.items()})
    assert cluster.scores(pod("0"), list(loads)) == [75, 100, 25]
    assert cluster.scores(pod(), list(loads)) == [75, 100, 25]


@pytest.mark.parametrize(
    ("recent", "args", "millis"),
    [
        (pod("400m", limit_cpu="2"), {}, 400),
        (pod("400m"), {"defaultRequestsMultiplier": "2"}, 800),
        (pod("400m", overhead={"cpu": "100m"}), {"defaultRequestsMultiplier": "2"}, 900),
        (pod(), {"defaultRequests": {"cpu": "800m"}, "defaultRequestsMultiplier": "2"}, 800),
    ],
)
def test_the_kep_predicts_recent_pods_by_requests_and_a_multiplier(
    recent: dict[str, Any], args: dict[str, Any], millis: int
) -> None:
    cluster = measured(0.0, formula="kep", **args)
    cluster.place("n", recent, age_seconds=0)
    assert cluster.scores(pod(), ["n"]) == [40 + round(millis * 60 / 1600)]


def test_g12_predicts_a_recent_best_effort_pod_at_a_millicore_or_as_configured() -> None:
    cluster = measured(40.0, formula="kep")
    assert cluster.scores(pod(), ["n"]) == [100]
    cluster.place("n", pod(), age_seconds=0)
    assert cluster.scores(pod(), ["n"]) == [40]  # one millicore above the target
    assert measured(15.0, defaultRequests={"cpu": "1"}).scores(pod(), ["n"]) == [100]


@pytest.mark.parametrize(("formula", "score"), [("corrected", 0), ("upstream", 40)])
def test_b13_a_node_without_cpu_scores_0(formula: str, score: int) -> None:
    cluster = MeasuredCluster(PLUGIN, formula=formula)
    cluster.node("n", capacity={"memory": "8Gi"})
    cluster.measure({"n": metrics(20.0)})
    assert cluster.scores(pod("1"), ["n"]) == [score]


@pytest.mark.parametrize(("formula", "score"), [("corrected", 100), ("upstream", 70)])
def test_b15_utilization_is_of_allocatable(formula: str, score: int) -> None:
    cluster = MeasuredCluster(PLUGIN, formula=formula)
    cluster.node("n", capacity={"cpu": "8"}, allocatable={"cpu": "4"})
    cluster.measure({"n": metrics(20.0)})  # 1600m: 20 % of the machine, 40 % of allocatable
    assert cluster.scores(pod(limit_cpu="0"), ["n"]) == [score]


@pytest.mark.parametrize(("formula", "score"), [("corrected", 100), ("upstream", 70)])
def test_b16_a_sidecar_is_predicted_too(formula: str, score: int) -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"cpu": "800m"}}}
    spec = pod(limit_cpu="0", initContainers=[sidecar])
    assert measured(20.0, formula=formula).scores(spec, ["n"]) == [score]
