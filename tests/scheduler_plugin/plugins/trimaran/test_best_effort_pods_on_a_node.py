"""LowRiskOverCommitment with formula kep: a best-effort pod may use the whole node."""

import pytest

from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster, metrics, pod

SMALL = pod("1", "1Gi", limit_cpu="1")


def scores_of(formula, incoming, **placed):
    """Return the score by limits alone of nodes of 4 cores and 8 GiB, each with one placed pod."""
    cluster = MeasuredCluster(
        "LowRiskOverCommitment", formula=formula, riskLimitWeights={"cpu": 1.0, "memory": 1.0}, smoothingWindowSize=1
    )
    for name, spec in placed.items():
        cluster.node(name)
        cluster.place(name, spec)
    cluster.measure({name: metrics(10, 10, 1, 1) for name in placed})
    return cluster.scores(incoming, list(placed))


def test_beside_a_best_effort_pod_the_limits_are_those_of_the_node_and_not_more():
    """Limits that are equal to the capacity of the node are no risk."""
    assert scores_of("kep", SMALL, best_effort=pod(), small=SMALL, limited=pod(limit_cpu="1")) == [100, 100, 100]


@pytest.mark.parametrize(("placed", "score"), [(pod("1", "1Gi"), 100), (pod("2", "2Gi", limit_cpu="7"), 20)])
def test_limits_above_the_node_are_a_risk_as_far_as_they_exceed_it(placed, score):
    """With 1 + 2 cores of requests and 1 + 7 of limits: (8 - 4) / (8 - 3) = 0.8 of the limits above requests."""
    assert scores_of("kep", SMALL, node=placed) == [score]
