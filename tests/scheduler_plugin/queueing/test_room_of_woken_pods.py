"""What a woken pod takes, and for how long: on its node, and of the Mid quota of its namespace."""

import pytest

from scheduler_plugin.queueing import refused_pods
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request


def refuse(parts, name, **more):
    parts.extender.filter(request(pod_document(name, **more), ["a"]), NOW)


def use(parts, cores):
    parts.cluster.metric_changed(factories.metric("a", usage={"cpu": str(cores), "memory": "1Gi"}))


def woken(parts, monotonic):
    return [each.pod.key for each in parts.refused.choose(NOW, monotonic) if each is not None]


def test_a_pod_that_was_not_tried_is_woken_again_once_its_time_is_over():
    parts = factories.parts()
    parts.cluster.node_changed(node("a"))
    use(parts, 90)
    refuse(parts, "web", priority=9500, requests={"cpu": "40", "memory": "1Mi"})
    use(parts, 10)  # there is room for one pod of 40 cores below the limit of 65
    assert woken(parts, 1000.0) == ["default/web"]
    assert woken(parts, 1000.0 + refused_pods._WOKEN_SECONDS) == ["default/web"]


def offer(parts, cores, memory):
    """Offer Mid resources on the node."""
    status = {
        "allocated": {"prod": {"cpu": "0", "memory": "0"}, "mid": {}},
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": cores, "memory": memory}}},
    }
    usage = {"cpu": "10", "memory": "10Gi"}
    spec = {"midColocationPolicy": {"enable": True}}
    parts.cluster.metric_changed(factories.metric("a", usage=usage, status=status, spec=spec))


@pytest.mark.parametrize(("resource", "each", "quota"), [("cpu", "2000", "4"), ("memory", "2Gi", "4Gi")])
def test_pods_that_want_one_kind_of_mid_are_woken_as_far_as_the_quota_of_their_namespace_goes(resource, each, quota):
    parts = factories.parts()
    parts.cluster.node_changed(node("a"))
    parts.vectors.mid_quotas.namespace_changed("default", f'{{"{resource}": "{quota}"}}')
    offer(parts, "1", "1Gi")
    for index in range(3):
        refuse(parts, f"m{index}", priority=7000, requests={f"kubernetes.io/mid-{resource}": each})
    offer(parts, "20", "20Gi")
    assert woken(parts, 1000.0) == ["default/m0", "default/m1"]
