"""Pods that wait for their turn: where a round begins, and what is left for them."""

import pytest

from scheduler_plugin.queueing import refused_pods
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request


@pytest.fixture
def parts(monkeypatch):
    """Return an extender with a cool node, before which only one pod of each round is compared without a turn."""
    monkeypatch.setattr(refused_pods, "_FIRST", 1)
    made = factories.parts()
    made.cluster.node_changed(node("a"))
    return made


def refuse(parts, count):
    """Let a hot node refuse some pods, and cool it."""
    parts.cluster.metric_changed(factories.metric("a", usage={"cpu": "90", "memory": "1Gi"}))
    for index in range(count):
        pod = pod_document(f"p{index}", priority=9500, requests={"cpu": "10m", "memory": "1Mi"})
        parts.extender.filter(request(pod, ["a"]), NOW)
    parts.cluster.metric_changed(factories.metric("a", usage={"cpu": "1", "memory": "1Gi"}))


def woken(parts, monotonic):
    return [each.pod.key for each in parts.refused.choose(NOW, monotonic) if each is not None]


def test_the_first_turns_are_those_of_the_pods_that_were_refused_first(parts, monkeypatch):
    monkeypatch.setattr(refused_pods, "_MOST_IN_TURN", 2)
    refuse(parts, 5)
    assert woken(parts, 1000.0) == ["default/p0", "default/p1", "default/p2"]


def test_pods_in_turn_use_all_that_may_be_woken_in_a_second(parts):
    refuse(parts, 30)
    assert woken(parts, 1000.0) == [f"default/p{index}" for index in range(20)]
    assert woken(parts, 1000.0) == []


def test_a_quarter_of_what_may_be_woken_is_left_for_pods_in_turn(parts, monkeypatch):
    monkeypatch.setattr(refused_pods, "_FIRST", 30)
    refuse(parts, 40)
    chosen = [*range(15), *range(30, 35)]
    assert woken(parts, 1000.0) == [f"default/p{index}" for index in chosen]
