"""Calls of several attempts on a pod, and of pods between each other's calls."""

import json

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request

NODES = ["cool", "warm"]


def call(parts, verb, pod, names=NODES):
    return json.loads(getattr(parts.extender, verb)(request(pod, names), NOW))


@pytest.fixture
def parts():
    made = factories.parts()
    for name, cpu in (("cool", "10"), ("warm", "40"), ("hot", "90")):
        made.cluster.node_changed(node(name))
        made.cluster.metric_changed(factories.metric(name, usage={"cpu": cpu, "memory": "10Gi"}))
    return made


def test_a_prioritize_call_in_another_order_belongs_to_the_filter_call_before_it(parts):
    web = pod_document("web", requests={"cpu": "1"})
    call(parts, "filter", web, ["hot", "cool", "warm"])
    call(parts, "prioritize", web, ["warm", "cool"])
    (decision,) = parts.records.of("default/web")
    assert (decision.asked, decision.passed) == (3, 2)


def test_a_prioritize_call_of_another_pod_begins_a_cycle_and_ends_the_one_before(parts):
    web, other = (pod_document(name, requests={"cpu": "1"}) for name in ("web", "other"))
    call(parts, "filter", web, ["hot", "cool", "warm"])
    call(parts, "prioritize", other)
    call(parts, "prioritize", web)
    assert [each.asked for each in parts.records.of("default/other")] == [2]
    assert [each.asked for each in parts.records.of("default/web")] == [2, 3]


def test_a_pod_that_something_else_refuses_begins_its_wait_again():
    clock = factories.Clock()
    parts = factories.parts({"softAfterSeconds": 60}, monotonic=clock)
    parts.cluster.node_changed(node("hot"))
    parts.cluster.metric_changed(factories.metric("hot", usage={"cpu": "90", "memory": "1Gi"}))

    def passing(**more):
        return call(parts, "filter", pod_document("web", requests={"cpu": "1"}, **more), ["hot"])["NodeNames"]

    assert passing() == []
    clock.seconds = 30
    assert passing(priority=7500) == []
    clock.seconds = 60
    assert passing() == []
    clock.seconds = 119
    assert passing() == []
    clock.seconds = 120
    assert passing() == ["hot"]


def test_the_counts_begin_at_zero(parts):
    assert set(parts.extender.outcomes.values()) == {0}
    assert set(parts.extender.preemption_candidates.values()) == {0}
    assert parts.extender.rejections == [0] * (1 + len(parts.cycle.reasons))


def test_a_pod_that_a_quota_refuses_gets_the_numbers_behind_the_reason(parts):
    parts.vectors.mid_quotas.namespace_changed("default", '{"cpu": "3"}')
    pod = pod_document("mid", priority=7500, requests={"kubernetes.io/mid-cpu": "4000"})
    (reason,) = set(call(parts, "filter", pod)["FailedAndUnresolvableNodes"].values())
    (plain,) = [each for each in parts.cycle.reasons if reason.startswith(each)]
    assert reason != plain
    assert "4" in reason.removeprefix(plain)
    assert "3" in reason.removeprefix(plain)
