"""Log lines about the annotation of a Node that reserves resources, and a list in which objects are readable again."""

from __future__ import annotations

import pytest

from apiserver_client import watching as watches
from koordlet.cluster import pods as pods_on_node
from koordlet.cluster import view as cluster_view
from tests.fakes import apiserver
from tests.koordlet.cluster.test_view import NODE, all_synced, changed, node_metric, reserving, script
from tests.koordlet.cluster.test_view import watching as following
from tests.koordlet.one_node import bound_pod


async def test_a_problem_of_the_reservation_is_logged_when_it_changes_and_not_when_it_ends(caplog):
    cpu, memory = reserving('{"resources": {"cpu": "-2"}}'), reserving('{"resources": {"memory": "-1"}}')
    edits = [changed("MODIFIED", each) for each in (cpu, memory, memory, NODE)]
    more = {**NODE, "status": {**NODE["status"], "allocatable": {"cpu": "3", "memory": "7Gi"}}}
    async with apiserver.running() as server:
        script(server, node=cpu, node_then=[*edits, changed("MODIFIED", more)])
        async with following(server, lambda view: view.allocatable == (3000, 7 << 30)) as view:
            assert view.reservation_problem is None
    logged = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Node n1")]
    assert ["resources.cpu" in each for each in logged] == [True, False]
    assert ["resources.memory" in each for each in logged] == [False, True]


@pytest.mark.parametrize("missing", ["cpu", "memory"])
async def test_resources_without_an_amount_of_cpu_or_memory_are_not_known(missing):
    amounts = {name: amount for name, amount in (("cpu", "4"), ("memory", "8Gi")) if name != missing}
    without = {**NODE, "status": {"capacity": amounts, "allocatable": amounts}}
    async with apiserver.running() as server:
        script(server, node=without)
        async with following(server, all_synced) as view:
            assert (view.capacity, view.allocatable) == (None, None)


def test_an_object_that_can_be_read_again_is_no_problem_any_more():
    view = cluster_view.ClusterView("n1")
    view._note_unreadable("pods", watches.Unreadable(("ns", "p"), "why"))
    view._note_unreadable("pods", watches.Unreadable(("ns", "q"), "why"))
    view._note_unreadable("node", watches.Unreadable(("", "n1"), "why"))
    view._note_unreadable("pods", watches.Synced(frozenset({("ns", "q")}), "7"))
    assert view.unreadable == {("node", "n1"): "why", ("pods", "ns/q"): "why"}
    view._note_unreadable("pods", watches.Deleted(("ns", "q"), None))
    assert view.unreadable == {("node", "n1"): "why"}


def test_a_write_replaces_the_version_that_it_was_sent_with_and_no_newer_one():
    view = cluster_view.ClusterView("n1")
    view.resource_version = "5"
    view.note_write("5", "6")
    assert view.resource_version == "6"
    view.note_write("5", "7")
    assert view.resource_version == "6"
    view.note_write("6", None)
    assert view.resource_version is None


async def test_a_reset_is_requested_until_its_annotation_is_gone():
    annotated = node_metric("6", 3)
    annotated["metadata"]["annotations"] = {"koordinator.sh/reset-prediction": "now"}
    async with apiserver.running() as server:
        script(server, metrics=[annotated])
        async with following(server, all_synced) as view:
            assert view.reset_request == "now"
            view._follow({**annotated, "metadata": {**annotated["metadata"], "annotations": {"other": "x"}}})
            assert view.reset_request == ""


def test_a_pod_that_is_missing_in_a_complete_list_is_gone_at_once():
    table = pods_on_node.PodTable()
    for name in ("a", "b"):
        table.put(bound_pod(name))
    assert len(table.active()) == 2
    before = table.version
    table.keep_only([("shop", "a")])
    assert [pod.name for pod in table.active()] == ["a"]
    assert table.version != before
    table.drop("shop", "a")
    assert table.active() == []
