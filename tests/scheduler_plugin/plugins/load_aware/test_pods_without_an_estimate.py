"""Pods of which a quantity cannot be read."""

import json

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request


@pytest.mark.parametrize(("used", "passes"), [("654m", True), ("655m", False)])
def test_a_pod_without_a_readable_request_adds_nothing_to_the_usage(used, passes):
    """The limit is 65 % of one core: 65.4 rounds to 65, 65.5 to 66."""
    parts = factories.parts()
    parts.cluster.node_changed(node("n1", cpu="1"))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": used, "memory": "1Gi"}))
    body = request(pod_document("web", requests={"cpu": "much"}), ["n1"])
    assert json.loads(parts.extender.filter(body, NOW))["NodeNames"] == (["n1"] if passes else [])
    assert json.loads(parts.extender.prioritize(body, NOW)) == [{"Host": "n1", "Score": 0}]
