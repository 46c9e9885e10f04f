"""A resource of which a node has one unit, such as a device."""

import json

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request

GPU = "nvidia.com/gpu"
ARGS = {"usageThresholds": {GPU: 50}, "supportedResources": [GPU]}


@pytest.mark.parametrize(
    ("has", "used", "passes"), [("1", "1", False), ("1", "0", True), ("2", "1", True), ("2", "2", False)]
)
def test_a_limit_holds_on_a_node_with_a_single_device(has, used, passes):
    parts = factories.parts(ARGS)
    parts.cluster.node_changed(node("n1", **{GPU: has}))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "1", "memory": "1Gi", GPU: used}))
    found = json.loads(parts.extender.filter(request(pod_document("web"), ["n1"]), NOW))
    assert found["NodeNames"] == (["n1"] if passes else [])
    if not passes:
        assert found["FailedAndUnresolvableNodes"] == {"n1": f"node(s) {GPU} usage exceed threshold"}


def test_a_node_without_the_device_passes_whatever_its_limit():
    key = "scheduling.koordinator.sh/usage-thresholds"
    parts = factories.parts(ARGS)
    parts.cluster.node_changed(node("n1", annotations={key: json.dumps({"usageThresholds": {GPU: -1}})}))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "1", "memory": "1Gi"}))
    assert json.loads(parts.extender.filter(request(pod_document("web"), ["n1"]), NOW))["NodeNames"] == ["n1"]
