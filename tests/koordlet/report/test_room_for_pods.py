"""Which of two pods gets the last room of a report."""

from __future__ import annotations

import datetime as dt

import pytest

from api_types.node_metric import types as node_metric
from koordlet.report import size_limit

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def pod(name="a", memory="1024", priority="koord-prod", namespace="default"):
    usage = node_metric.ResourceMap(resources=None if memory is None else {"cpu": "1", "memory": memory})
    return node_metric.PodMetricInfo(name=name, namespace=namespace, pod_usage=usage, priority=priority, qos="LS")


def report(pods, rest_bytes):
    conditions = [
        node_metric.Condition(type=name, status="True", message=message, last_transition_time=NOW)
        for name, message in (("Ready", "all is well"), ("Rest", "r" * rest_bytes))
    ]
    return node_metric.NodeMetricStatus(update_time=NOW, pods_metric=pods, conditions=conditions)


def fitted(*pods):
    """Return a report of these pods that has no room for the last one."""
    rest_bytes = size_limit.LIMIT_BYTES
    while True:
        found = size_limit.fit(report(list(pods), rest_bytes))
        if len(found.pods_metric or ()) == len(pods) - 1:
            return found
        rest_bytes -= 50
        assert rest_bytes > 0


@pytest.mark.parametrize(
    ("kept", "left_out"),
    [
        (pod(priority="koord-prod"), pod(priority="", memory="9999")),
        (pod(priority=""), pod(priority="koord-mid", memory="9999")),
        (pod(priority="koord-mid"), pod(priority="koord-batch", memory="9999")),
        (pod(priority="koord-batch"), pod(priority="koord-free", memory="9999")),
        (pod(priority="koord-batch"), pod(priority=None, memory="9999")),
        (pod("b", memory="2"), pod("a", memory="1")),
        (pod("a", memory="0"), pod("b", memory=None)),
        (pod("b", namespace="a"), pod("a", namespace="b")),
        (pod("a", namespace="b"), pod("b", namespace="b")),
        (pod("a", namespace=None), pod("a", namespace="b")),
        (pod(None), pod("b")),
    ],
)
def test_the_pod_of_the_higher_class_then_usage_then_the_first_name_is_kept(kept, left_out):
    for pods in ((kept, left_out), (left_out, kept)):
        assert fitted(*pods).pods_metric == [kept]


def test_only_ready_states_how_many_pods_are_left_out():
    ready, rest = fitted(pod("a"), pod("b"), pod("c")).conditions
    assert ready.message.startswith("all is well; 1 of 3 measured pods are left out of podsMetric")
    assert set(rest.message) == {"r"}
