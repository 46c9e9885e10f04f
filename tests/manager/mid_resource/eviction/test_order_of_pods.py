"""The order of pods where two resources are needed, or more than one pod has."""

from api_types import names
from manager.mid_resource.eviction import victims
from manager.mid_resource.eviction.pod_view import Candidate

NEED = {names.MID_CPU: 1000, names.MID_MEMORY: 1000}


def candidate(name, cpu, memory):
    return Candidate(
        uid=name, namespace="a", name=name, requests={names.MID_CPU: cpu, names.MID_MEMORY: memory}, priority=7000,
        eviction_priority=0, sub_priority=7000, memory_used=0, protected="",
    )  # fmt: skip


def order(*pods):
    return [pod.name for pod in victims.in_order(pods, NEED, lambda _: True)]


def test_more_of_one_resource_than_is_needed_makes_up_for_nothing_of_another():
    one, most_of_both = candidate("a-much-cpu", 5000, 0), candidate("b-most-of-both", 800, 800)
    assert victims.gain(one, NEED) == 1.0
    assert victims.gain(most_of_both, NEED) == 1.6
    assert order(one, most_of_both) == ["b-most-of-both", "a-much-cpu"]


def test_a_pod_that_covers_both_resources_goes_before_a_larger_one_and_before_one_that_covers_one():
    pods = [candidate("a", 9000, 9000), candidate("b", 9000, 900), candidate("c", 1000, 1000)]
    assert order(*pods) == ["c", "a", "b"]
