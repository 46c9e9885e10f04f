"""Tests that a recording from an apiserver equals one from kubectl's files, and that a bad file is named."""

import pytest

from scheduler_plugin.simulation import recorded_cluster
from scheduler_plugin.simulation.recorded_cluster import BadRecording
from tests.fakes import apiserver
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.simulation.test_recorded_cluster import node, report


async def test_lists_each_kind_once():
    async with apiserver.running() as running, running.session() as api:
        running.on("GET", "/api/v1/nodes", apiserver.page("5", node("n1"), node("n2")))
        running.on("GET", "/api/v1/pods", apiserver.page("5", factories.pod_document("web")))
        reported = apiserver.page("5", report("n1", "1"))
        running.on("GET", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics", reported)
        found = await recorded_cluster.from_cluster(api)
    assert [each["metadata"]["name"] for each in found.nodes] == ["n1", "n2"]
    assert [each["metadata"]["name"] for each in found.pods] == ["web"]
    assert [each["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] for each in found.metrics] == ["1"]


def test_names_a_file_with_too_deep_nesting(tmp_path):
    file = tmp_path / "pods.json"
    file.write_text('{"items":' * 100_000)
    with pytest.raises(BadRecording, match=r"pods\.json: "):
        recorded_cluster.from_files(str(file), str(file), None)
