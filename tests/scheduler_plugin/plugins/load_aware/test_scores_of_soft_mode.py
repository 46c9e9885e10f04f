"""Scores of `mode: soft`: nodes within their limits from 20 on, others below by a point for two percent of excess."""

import json

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

SOFT = {"mode": "soft"}


def score(cores, *, args=SOFT, owner_kind="ReplicaSet", memory="1Gi"):
    """Return the score of a node of 100 cores and 100 GiB for a pod that is estimated at a quarter of a core."""
    parts = factories.parts(args)
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": str(cores), "memory": memory}))
    pod = factories.pod_document(priority=None, owner_kind=owner_kind)
    (answer,) = json.loads(parts.extender.prioritize(factories.request(pod, ["n1"]), NOW))
    return answer["Score"]


@pytest.mark.parametrize(
    ("cores", "wanted"), [(66, 19), (67, 19), (68, 18), (69, 18), (70, 17), (95, 5), (101, 2), (103, 1), (150, 1)]
)
def test_a_node_above_its_limit_loses_a_point_for_two_percent_down_to_1(cores, wanted):
    assert score(cores) == wanted


@pytest.mark.parametrize(("cores", "memory"), [(70, "98Gi"), (66, "105Gi")])
def test_the_largest_excess_of_any_resource_counts(cores, memory):
    # 5 % of CPU above 65 and 3 % of memory above 95, or 1 % and 10 %
    assert score(cores, memory=memory) == {70: 17, 66: 15}[cores]


@pytest.mark.parametrize("cores", [0, 1, 30, 60, 65])
def test_a_node_within_its_limits_has_four_fifths_of_its_score_above_20(cores):
    free = score(cores, args={})
    assert score(cores) == 20 + free * 80 // 100


@pytest.mark.parametrize("owner_kind", ["DaemonSet", "Node"])
def test_a_pod_without_limits_has_the_score_of_the_other_mode(owner_kind):
    for cores in (1, 70, 95):
        assert score(cores, owner_kind=owner_kind) == score(cores, args={}, owner_kind=owner_kind)
