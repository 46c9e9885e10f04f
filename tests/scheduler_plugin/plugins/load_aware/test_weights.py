"""Weights of resources in the score."""

import json

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request


def scores(**memory_gibibytes):
    parts = factories.parts({"resourceWeights": {"cpu": 1}})
    for name, gibibytes in memory_gibibytes.items():
        parts.cluster.node_changed(node(name))
        parts.cluster.metric_changed(factories.metric(name, usage={"cpu": "10", "memory": f"{gibibytes}Gi"}))
    pod = pod_document("web", requests={"cpu": "1", "memory": "1Gi"})
    answer = json.loads(parts.extender.prioritize(request(pod, list(memory_gibibytes)), NOW))
    return {each["Host"]: each["Score"] for each in answer}


@pytest.mark.parametrize("gibibytes", [1, 50, 90])
def test_a_resource_without_a_weight_does_not_count(gibibytes):
    found = scores(a=1, b=gibibytes)
    assert found["a"] == found["b"] > 0
