"""Sums of pods that a report lists, the same whether the pod or the report comes first."""

import pytest

from scheduler_plugin.state.node_load import NodeLoad
from tests.scheduler_plugin.state.test_node_load import assigned, report

OLD = -1000.0
USAGE = {"p": (40, 50)}


def loads(pod, given, *, system_in_prod=False):
    """Yield the load with the report before, after, and between two assignments of the pod."""
    for steps in ("pr", "rp", "prp", "rrp"):
        load = NodeLoad(2, system_in_prod=system_in_prod)
        for step in steps:
            if step == "p":
                load.assign(pod)
            else:
                load.set_report(given)
        yield load


@pytest.mark.parametrize(
    ("pod", "prod", "usage", "node_delta", "prod_delta"),
    [
        (assigned("p", at=OLD), ["p"], [40, 50], [0, 0], [0, 0]),
        (assigned("p", at=OLD), [], [0, 0], [0, 0], [1000, 100]),
        (assigned("p", at=0.0), ["p"], [40, 50], [960, 50], [960, 50]),
        (assigned("p", at=0.0), [], [0, 0], [960, 50], [1000, 100]),
        (assigned("p", at=OLD, prod=False), ["p"], [0, 0], [0, 0], [0, 0]),
        (assigned("p", at=0.0, prod=False), ["p"], [0, 0], [960, 50], [0, 0]),
        (assigned("other", at=OLD), ["p"], [0, 0], [1000, 100], [1000, 100]),
        (assigned("other", at=OLD, prod=False), ["p"], [0, 0], [1000, 100], [0, 0]),
        (assigned("p", None, at=OLD), ["p"], [40, 50], [0, 0], [0, 0]),
        (assigned("p", None, at=0.0), [], [0, 0], [0, 0], [0, 0]),
        (assigned("p", at=OLD, forced_until=1.0), ["p"], [40, 50], [960, 50], [960, 50]),
        (assigned("p", at=OLD, forced_until=0.0), ["p"], [40, 50], [0, 0], [0, 0]),
    ],
)
def test_a_pod_counts_by_its_class_its_age_and_the_class_in_the_report(pod, prod, usage, node_delta, prod_delta):
    for load in loads(pod, report(USAGE, prod)):
        assert (load.prod_usage, load.node_delta, load.prod_delta) == (usage, node_delta, prod_delta)
        assert load.node_estimated == list(pod.estimate or (0, 0))
        load.remove(pod.key)
        assert (load.prod_usage, load.node_delta, load.prod_delta) == ([0, 0], [0, 0], [0, 0])


@pytest.mark.parametrize("zero", [(0, 50), (40, 0), (0, 0)])
def test_a_pod_may_be_reported_with_no_usage_of_a_resource(zero):
    for load in loads(assigned("p", at=OLD), report({"p": zero}, ["p"]), system_in_prod=True):
        assert load.prod() == (70 + zero[0], 7 + zero[1])


def test_many_reported_pods_are_added_up():
    load = NodeLoad(2, system_in_prod=True)
    for name in "abcd":
        load.assign(assigned(name, at=OLD, prod=name != "d"))
    load.set_report(report({"a": (1, 10), "b": (2, 20), "c": (4, 40), "d": (8, 80)}, ["a", "b", "d"]))
    assert load.prod_usage == [73, 37]
    assert load.prod_delta == [1000, 100]
    load.remove("ns/a")
    assert load.prod_usage == [72, 27]
