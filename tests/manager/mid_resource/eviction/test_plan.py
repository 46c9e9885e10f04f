"""Which pods a plan counts and names, at the smallest amounts."""

import dataclasses
import datetime as dt

import pytest

from api_types import names
from manager.mid_resource.eviction import planning, policy
from manager.mid_resource.eviction.pod_view import NodePods
from manager.mid_resource.eviction.policy import Graces
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.eviction.victims import MEMORY_IN_USE
from tests.manager.mid_resource.eviction.test_order import candidate
from tests.manager.mid_resource.eviction.test_shortage import POLICY, seen

SHORT_OF_CPU = seen((0, 1000))


def plan(*pods, observation=SHORT_OF_CPU, triggers=(Trigger.MID_CPU,), may_go=lambda _: True):
    return planning.plan(NodePods(pods, ()), observation, triggers, POLICY, may_go)


def test_a_protected_pod_is_named_only_where_it_would_free_what_is_short():
    found = plan(candidate("a"), candidate("b", protected="x"), candidate("c", 0, protected="x"))
    assert (found.victim.name, [pod.name for pod in found.protected]) == ("a", ["b"])


@pytest.mark.parametrize("observation", [None, SHORT_OF_CPU])
def test_where_every_pod_has_to_go_each_protected_one_is_named(observation):
    pods = candidate("b", protected="x"), candidate("c", 0, protected="x"), candidate("d", 0)
    found = plan(*pods, observation=observation, triggers=(Trigger.LEAVING, Trigger.MID_CPU))
    assert (found.victim.name, found.triggers, found.need) == ("d", (Trigger.LEAVING,), {})
    assert [pod.name for pod in found.protected] == ["b", "c"]


def test_pods_that_wait_are_counted_apart_from_protected_ones():
    waiting = [candidate(name) for name in ("a", "b", "c")]
    found = plan(*waiting, candidate("d", protected="x"), candidate("e", 0), may_go=lambda _: False)
    assert found.nothing == "1 Mid pods are protected, 3 wait after a refusal"
    assert plan(triggers=(Trigger.DRAIN,)).nothing == "no Mid pod is left"


@pytest.mark.parametrize(("calculated", "need"), [(1000, {}), (999, {names.MID_CPU: 1}), (1001, {})])
def test_what_is_short_is_needed_from_the_first_unit_on(calculated, need):
    pods = NodePods((candidate("a"),), ())
    assert planning.needed(pods, seen((calculated, 1000)), {Trigger.MID_CPU}, POLICY) == need


@pytest.mark.parametrize(("used", "need"), [(39, {}), (40, {MEMORY_IN_USE: 1})])
def test_memory_is_needed_from_the_first_byte_on(used, need):
    observation = dataclasses.replace(seen(memory_used=used), memory_capacity=50)
    assert planning.needed(NodePods((), ()), observation, {Trigger.NODE_MEMORY}, POLICY) == need


@pytest.mark.parametrize(("autoscaler", "percent"), [("none", 0), ("karpenter", 100), ("cluster-autoscaler", 50)])
def test_the_autoscaler_decides_what_is_underused_where_no_key_does(autoscaler, percent):
    assert policy.underused_percent(POLICY, autoscaler) == percent


def test_beside_an_autoscaler_a_node_is_emptied_after_5_minutes_and_without_room_after_10():
    advised = dataclasses.replace(POLICY, mode="advise")
    assert policy.graces_of(advised, "karpenter") == Graces(dt.timedelta(minutes=5), dt.timedelta(minutes=10))
