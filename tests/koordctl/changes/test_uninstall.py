"""Which nodes `koordctl uninstall` names: those with a Mid resource or an annotation of the suite anywhere."""

import datetime as dt
import io

import pytest

from apiserver_client import session
from fleet.reading import Reader
from koordctl.changes import uninstall
from koordctl.cli import output
from manager.cli.uninstall import CLEAN_NODE
from tests.fakes import cluster
from tests.koordctl.parsing import parsed

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
MARKED = "nodes with Mid resources or annotations"


async def shown(server):
    async with session.connect(server.connection(), user_agent="test/1") as api:
        return await uninstall._uninstall(Reader(api, NOW), parsed(["uninstall", "--dry-run"]))


async def dry_run(*nodes):
    async with cluster.running() as server:
        for node in nodes:
            server.add("nodes", node)
        return await shown(server)


@pytest.mark.parametrize("resource", ["kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"])
async def test_a_mid_resource_in_the_capacity_or_the_allocatable_marks_a_node(resource):
    plain, mid = {"cpu": "4", "memory": "8Gi"}, {"cpu": "4", "memory": "8Gi", resource: "1"}
    answer = await dry_run(
        {"metadata": {"name": "a"}, "status": {"capacity": plain, "allocatable": mid}},
        {"metadata": {"name": "b"}, "status": {"capacity": mid, "allocatable": plain}},
        {"metadata": {"name": "c"}, "status": {"capacity": mid}},
        {"metadata": {"name": "d"}, "status": {"allocatable": mid}},
        {"metadata": {"name": "e"}, "status": {"capacity": plain, "allocatable": plain}},
        {"metadata": {"name": "f"}, "status": {}},
    )
    assert answer.data.objects[MARKED] == ["a", "b", "c", "d"]


async def test_an_annotation_that_the_cleanup_removes_marks_a_node():
    annotations = CLEAN_NODE["metadata"]["annotations"]
    nodes = [{"metadata": {"name": f"n{number}", "annotations": {key: "{}"}}, "status": {}}
             for number, key in enumerate(annotations)]  # fmt: skip
    answer = await dry_run(*nodes, {"metadata": {"name": "other", "annotations": {"example.com/x": "y"}}, "status": {}})
    assert answer.data.objects[MARKED] == [each["metadata"]["name"] for each in nodes]
    text = io.StringIO()
    output.show(answer, "table", to=text)
    head, *lines = text.getvalue().splitlines()
    assert head.split() == ["WHAT", "COUNT"]
    (line,) = [each for each in lines if each.startswith(MARKED)]
    assert line.split()[-1] == str(len(nodes))
    assert len(line) == len(head)
    assert lines[-2:] == ["", "would be removed"]
    assert answer.names == [f"{MARKED}/{each['metadata']['name']}" for each in nodes]


async def test_a_dry_run_reads_the_metadata_of_the_node_metrics_only():
    async with cluster.running() as server:
        for name in ("n1", "n2"):
            server.add("nodemetrics", {"metadata": {"name": name}, "status": {"podsMetric": []}})
        answer = await shown(server)
        assert answer.data.objects["NodeMetrics"] == ["n1", "n2"]
        assert server.writes == []
        (of_metrics,) = [each for each in server.requests if each.path.endswith("/nodemetrics")]
        headers = {name.lower(): value for name, value in of_metrics.headers.items()}
        assert "as=PartialObjectMetadataList" in headers["accept"]
