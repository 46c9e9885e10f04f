"""Which reasons of a refusal begin the wait of a Prod pod, after which its limits only order the nodes."""

import json

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, Clock, metric, node, pod_document, request


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def parts(clock):
    made = factories.parts({"softAfterSeconds": 60}, monotonic=clock)
    made.cluster.node_changed(node("n1"))
    return made


def passing(parts, now=NOW, **requests):
    pod = pod_document("web", requests={"cpu": "1", **requests})
    return json.loads(parts.extender.filter(request(pod, ["n1"]), now))["NodeNames"]


def offer_mid(parts, *, cpu_used, mid_cpu):
    status = {
        "allocated": {"prod": {"cpu": "0", "memory": "0"}, "mid": {}},
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": mid_cpu, "memory": "8Gi"}}},
    }
    policy = {"midColocationPolicy": {"enable": True}}
    usage = {"cpu": cpu_used, "memory": "1Gi"}
    parts.cluster.metric_changed(metric("n1", usage=usage, status=status, spec=policy))


def test_an_expired_report_begins_the_wait(parts, clock):
    parts.cluster.metric_changed(metric("n1", usage={"cpu": "10", "memory": "1Gi"}, updated=-1000))
    assert passing(parts) == []
    clock.seconds = 59
    assert passing(parts) == []
    clock.seconds = 60
    assert passing(parts) == ["n1"]


@pytest.mark.parametrize("usage", [{"cpu": "1", "memory": "99Gi"}, {"cpu": "99", "memory": "1Gi"}])
def test_each_resource_above_its_limit_begins_the_wait(parts, clock, usage):
    parts.cluster.metric_changed(metric("n1", usage=usage))
    assert passing(parts) == []
    clock.seconds = 60
    assert passing(parts) == ["n1"]


def test_too_little_mid_begins_no_wait(parts, clock):
    wanted = {"kubernetes.io/mid-cpu": "4000"}
    offer_mid(parts, cpu_used="10", mid_cpu="1")
    assert passing(parts, **wanted) == []
    offer_mid(parts, cpu_used="90", mid_cpu="8")
    clock.seconds = 60
    assert passing(parts, **wanted) == []
    clock.seconds = 120
    assert passing(parts, **wanted) == ["n1"]


def test_a_pod_that_passes_begins_its_next_wait_from_the_start(parts, clock):
    parts.cluster.metric_changed(metric("n1", usage={"cpu": "99", "memory": "1Gi"}))
    assert passing(parts) == []
    parts.cluster.metric_changed(metric("n1", usage={"cpu": "1", "memory": "1Gi"}))
    clock.seconds = 30
    assert passing(parts) == ["n1"]
    parts.cluster.metric_changed(metric("n1", usage={"cpu": "99", "memory": "1Gi"}))
    clock.seconds = 60
    assert passing(parts) == []
