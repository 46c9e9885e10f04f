"""The debug page of a pod shows the Mid of its namespace, for a pod that requests any Mid."""

import asyncio
import json

import pytest

from scheduler_plugin.app.debug_pages import DebugPages
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, pod_document, request

CPU, MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"


@pytest.mark.parametrize(
    ("requests", "is_mid"),
    [({CPU: "500"}, True), ({MEMORY: "1Gi"}, True), ({CPU: "500", MEMORY: "1Gi"}, True), ({"cpu": "1"}, False)],
)
async def test_the_page_of_a_pod_with_mid_cpu_or_mid_memory_has_the_use_of_its_namespace(requests, is_mid):
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("a"))
    parts.extender.filter(request(pod_document("new", requests=requests), ["a"]), NOW)
    pages = DebugPages(parts, None, asyncio.get_running_loop())
    page = await asyncio.to_thread(pages.pod, {"path": "default/new"})
    assert (json.loads(b"".join(page.body))["midOfNamespace"] is not None) == is_mid
