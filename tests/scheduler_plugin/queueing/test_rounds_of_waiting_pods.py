"""When a round of refused pods is due, and with which pod it goes on."""

import pytest

from scheduler_plugin.queueing import refused_pods
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request


@pytest.fixture
def parts(monkeypatch):
    """Return an extender with a hot node: each round compares one pod at first, and two in turn."""
    monkeypatch.setattr(refused_pods, "_FIRST", 1)
    monkeypatch.setattr(refused_pods, "_MOST_IN_TURN", 2)
    made = factories.parts()
    made.cluster.node_changed(node("a"))
    use(made, 90)
    return made


def use(parts, cores):
    parts.cluster.metric_changed(factories.metric("a", usage={"cpu": str(cores), "memory": "1Gi"}))


def refuse(parts, count):
    for index in range(count):
        pod = pod_document(f"p{index}", priority=9500, requests={"cpu": "10m", "memory": "1Mi"})
        parts.extender.filter(request(pod, ["a"]), NOW)


def woken(parts, monotonic):
    return [each.pod.key for each in parts.refused.choose(NOW, monotonic) if each is not None]


def test_a_round_is_due_while_a_single_pod_is_left_to_compare(parts):
    refuse(parts, 4)
    due = []
    for _ in range(3):
        due.append(parts.refused.begins_round(1000.0))
        assert woken(parts, 1000.0) == []
    assert due == [True, True, False]  # of the three pods in turn, two are compared, then one


def test_without_a_change_a_round_is_due_after_its_time(parts):
    refuse(parts, 1)
    assert parts.refused.begins_round(1000.0)
    assert woken(parts, 1000.0) == []
    assert not parts.refused.begins_round(1000.0 + refused_pods._FULL_ROUND_SECONDS - 0.125)
    assert parts.refused.begins_round(1000.0 + refused_pods._FULL_ROUND_SECONDS)


def test_the_next_round_goes_on_with_the_pod_after_the_last_in_turn(parts):
    refuse(parts, 7)
    assert woken(parts, 1000.0) == []  # p1 and p2 had their turn
    use(parts, 1)
    assert woken(parts, 1000.0) == ["default/p0", "default/p3", "default/p4"]


def test_half_of_the_turns_of_a_namespace_are_forgotten_after_a_minute(parts, monkeypatch):
    monkeypatch.setattr(refused_pods, "_FIRST", 30)

    def refuse_and_wake(keys, monotonic):
        use(parts, 90)
        for key in keys:
            namespace, name = key.split("/")
            pod = pod_document(name, namespace=namespace, priority=9500, requests={"cpu": "10m", "memory": "1Mi"})
            parts.extender.filter(request(pod, ["a"]), NOW)
        use(parts, 1)
        found = woken(parts, monotonic)
        for key in keys:
            parts.refused.forget(pod_document(key.split("/")[1])["metadata"]["uid"])
        return found

    assert refuse_and_wake(["x/p0", "x/p1"], 1000.0) == ["x/p0", "x/p1"]
    assert refuse_and_wake(["x/p2", "y/p3"], 1060.0) == ["y/p3", "x/p2"]  # one turn of x still counts
    assert refuse_and_wake(["x/p4", "z/p5"], 1120.0) == ["z/p5", "x/p4"]  # (1 + 1) / 2
    assert refuse_and_wake(["x/p6", "u/p7"], 1300.0) == ["u/p7", "x/p6"]
