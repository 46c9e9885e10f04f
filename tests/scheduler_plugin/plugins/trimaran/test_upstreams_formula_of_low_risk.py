"""LowRiskOverCommitment with formula upstream: what is not measured, and of what the percentages are."""

import pytest

from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster, metrics, pod


def cluster(formula="upstream", weight=0.0, **shape):
    made = MeasuredCluster(
        "LowRiskOverCommitment",
        formula=formula,
        riskLimitWeights={"cpu": weight, "memory": weight},
        smoothingWindowSize=1,
    )
    made.node("n", **shape)
    return made


def test_a_node_that_is_not_measured_has_the_lowest_score():
    made = cluster()
    made.node("other")
    made.measure({"other": metrics(1, 1, 1, 1)})
    assert made.scores(pod("1", "1Gi"), ["n"]) == [0]


def test_a_resource_that_is_not_measured_is_no_risk():
    made = cluster()
    made.place("n", pod("4", "1Gi", limit_cpu="4"))
    made.measure({"n": metrics(50, None, 0)})
    assert made.scores(pod("1", "1Gi"), ["n"]) == [100]


@pytest.mark.parametrize(("incoming", "score"), [(pod(), 0), (pod(limit_cpu="1"), 100), (pod("1"), 100)])
def test_only_a_pod_with_neither_requests_nor_limits_ranks_no_node(incoming, score):
    made = cluster(weight=1.0)
    made.measure({"n": metrics(50, 50, 1, 1)})
    assert made.scores(incoming, ["n"]) == [score]


@pytest.mark.parametrize(("formula", "score"), [("upstream", 100), ("corrected", 0), ("kep", 0)])
def test_percentages_are_of_the_allocatable_amounts_for_upstream_and_else_of_the_capacity(formula, score):
    """50 % of 4 allocatable cores is below the requests of 3, of 8 cores it is above them."""
    made = cluster(formula, capacity={"cpu": "8", "memory": "8Gi"}, allocatable={"cpu": "4", "memory": "8Gi"})
    made.place("n", pod("3", "8Gi", limit_cpu="3"))
    made.measure({"n": metrics(50, 1, 0, 0)})
    assert made.scores(pod("100m", "1Mi"), ["n"]) == [score]
