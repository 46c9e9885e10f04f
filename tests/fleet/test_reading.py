"""A snapshot is read once, in pages, as far as the caller may."""

import contextlib

import pytest

from api_types.kubernetes import times
from apiserver_client import errors
from fleet import reading
from tests.fakes import apiserver
from tests.fleet import cluster

NODES, METRICS, PODS = "/api/v1/nodes", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics", "/api/v1/pods"
NOW = times.parse_rfc3339(cluster.NOW)


@contextlib.asynccontextmanager
async def reader_of(**answers):
    async with apiserver.running() as server:
        for path, given in {
            NODES: answers.get("nodes"),
            METRICS: answers.get("metrics"),
            PODS: answers.get("pods"),
        }.items():
            for each in given or ():
                status = 403 if each.get("code") == 403 else 200
                server.on("GET", path, apiserver.Answer(each, status))
        async with server.session() as api:
            yield reading.Reader(api, NOW), server


async def test_lists_are_read_in_pages_of_500():
    pages = [cluster.listing(cluster.node("a"), more="2"), cluster.listing(cluster.node("b"))]
    async with reader_of(nodes=pages, metrics=[cluster.listing(cluster.metric("b"))]) as (reader, server):
        found = await reader.nodes()
    assert [(each.name, each.has_report) for each in found] == [("a", False), ("b", True)]
    assert [each.query.get("limit") for each in server.asked("GET")] == ["500"] * 3
    assert server.asked("GET", NODES)[1].query["continue"] == "2"


async def test_without_the_right_to_list_nodes_the_reports_are_shown():
    metrics = [cluster.listing(cluster.metric())]
    async with reader_of(nodes=[cluster.forbidden("nodes")], metrics=metrics) as (reader, _):
        (found,) = await reader.nodes()
    assert (found.name, found.has_node, found.used.cpu) == ("worker-1", False, 7680)
    assert [(each.what, each.is_right) for each in reader.unread] == [("nodes", True)]


async def test_without_a_right_for_either_there_is_no_answer():
    async with reader_of(nodes=[cluster.forbidden("nodes")], metrics=[cluster.forbidden("them")]) as (reader, _):
        assert await reader.nodes() is None


async def test_a_missing_crd_is_noted():
    async with reader_of(nodes=[cluster.listing(cluster.node())]) as (reader, _):
        (found,) = await reader.nodes()
    assert found.reason == "NodeMetricMissing"
    assert [(each.what, each.is_right) for each in reader.unread] == [("nodemetrics", False)]


async def test_an_object_that_cannot_be_decoded_hides_no_other():
    bad = cluster.metric("bad")
    bad["status"]["updateTime"] = {"not": "a time"}
    listed = [cluster.listing(bad, cluster.metric("worker-1"))]
    async with reader_of(nodes=[cluster.listing(cluster.node())], metrics=listed) as (reader, _):
        (found,) = await reader.nodes()
    assert found.has_report
    assert reader.unread[0].what == "1 of 2 nodemetrics"


async def test_pods_have_the_usage_of_the_report_of_their_own_node():
    elsewhere = cluster.metric("other", pods=[cluster.usage_of(cpu="9")])
    listed = [cluster.listing(elsewhere, cluster.metric(pods=[cluster.usage_of()]))]
    ended = cluster.pod("done")
    ended["status"]["phase"] = "Succeeded"
    async with reader_of(pods=[cluster.listing(cluster.pod(), ended)], metrics=listed) as (reader, _):
        (found,) = await reader.pods(None)
    assert (found.name, found.band, found.requests.cpu, found.used.cpu, found.slack.cpu) == (
        "web-0", "prod", 4000, 600, 3400,
    )  # fmt: skip


async def test_an_apiserver_that_does_not_answer_is_an_error():
    async with reader_of(nodes=[{"code": 403}]) as (reader, server):
        server.on("GET", METRICS, apiserver.ABORT)
        with pytest.raises(errors.Unreachable):
            await reader.nodes()
