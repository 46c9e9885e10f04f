"""Tests of SignalFx and Datadog against a server that returns recorded responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec, registry, signalfx
from scheduler_plugin.load_watcher.providers.provider import HostFilter, KnownNode, Provider, ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from scheduler_plugin.load_watcher.records import Window
from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer, Asked, Source

WINDOW = records.window_ending_at("15m", 1000)
CONTEXT = registry.ProviderContext(dict, dict, None)


def signalfx_answer(asked: Asked) -> Answer:
    if asked.path == "/v1/timeserieswindow":
        return Answer(json.dumps({"data": {"a": [[1, 10], [2, 20], [3, 60]], "b": [], "c": [[1, 7]]}}).encode())
    results = [{"id": "a", "dimensions": {"host": "h1.x.y"}}, {"id": "b", "dimensions": {"host": "h2"}}]
    return Answer(json.dumps({"count": 2, "results": results}).encode())


def datadog_answer(asked: Asked) -> Answer:
    if asked.method == "GET":
        return Answer(b'{"valid": true}')
    series = [
        {"group_tags": ["host:h1.dev"], "query_index": 0},
        {"group_tags": ["host:h1.dev"], "query_index": 1},
        {"group_tags": ["host:h1.dev"], "query_index": 2},
        {"group_tags": ["host:h2"], "query_index": 0},
        {"group_tags": ["host:h2"], "query_index": 1},
    ]
    values = [[10, None, 30], [5, 5, 5], [0.25, 0.75, None], [None, None, None], [40, 40, 40]]
    attributes = {"series": series, "times": [1, 2, 3], "values": values}
    return Answer(json.dumps({"data": {"type": "timeseries_response", "attributes": attributes}}).encode())


EKS = "ip-10-0-1-5.ec2.internal"


def eks_answer(asked: Asked) -> Answer:
    if asked.path == "/v1/timeserieswindow":
        return Answer(json.dumps({"data": {"a": [[100_000, 10], [990_000, 20]]}}).encode())
    if asked.path == "/v2/metrictimeseries":
        return Answer(json.dumps({"count": 1, "results": [{"id": "a", "dimensions": {"host": EKS}}]}).encode())
    series = [{"group_tags": [f"host:{EKS}"], "query_index": index} for index in range(3)]
    attributes = {"series": series, "times": [100_000, 990_000, 995_000], "values": [[1, 2, None]] * 3}
    return Answer(json.dumps({"data": {"attributes": attributes}}).encode())


@pytest.mark.parametrize("kind", ["SignalFx", "Datadog"])
@pytest.mark.parametrize(("nodes", "name"), [((EKS,), EKS), (("ip-10-0-1-5",), "ip-10-0-1-5")])
async def test_the_whole_name_of_a_host_counts_before_its_first_label(kind: str, nodes: tuple[str], name: str) -> None:
    with metrics_source.answering(eks_answer) as source:
        client = build(kind, source, nodes, applicationKey="app")
        fetched = await client.fetch(WINDOW)
        await client.close()
    assert fetched.nodes.keys() == {name}
    assert fetched.nodes[name].window == Window("15m", 100, 990)  # the end of the newest point


@pytest.fixture
def signalfx_source() -> Iterator[Source]:
    with metrics_source.answering(signalfx_answer) as source:
        yield source


@pytest.fixture
def datadog_source() -> Iterator[Source]:
    with metrics_source.answering(datadog_answer) as source:
        yield source


def build(kind: str, source: Source, nodes: Sequence[str] = (), **more: str) -> Provider:
    spec = ProviderSpec.model_validate({"type": kind, "address": source.address, "token": "key", **more})
    assert provider_spec.problems(spec) == []
    return registry.build(spec, CONTEXT._replace(nodes=lambda: dict.fromkeys(nodes, KnownNode(1000, 1000))))


async def test_signalfx_returns_the_mean_of_each_series_of_a_host(signalfx_source: Source) -> None:
    client = build("SignalFx", signalfx_source, clusterName="c1")
    fetched = await client.fetch(WINDOW)
    await client.close()
    assert {name: [(m.type, m.operator, m.value) for m in node.metrics] for name, node in fetched.nodes.items()} == {
        "h1": [("CPU", "AVG", 30.0), ("Memory", "AVG", 30.0)]
    }
    assert {asked.headers["x-sf-token"] for asked in signalfx_source.asked} == {"key"}
    query = signalfx_source.asked[0].query
    assert {query[name] for name in ("startMs", "startMS")} == {"100000"}
    assert {query[name] for name in ("endMs", "endMS")} == {"1000000"}
    assert query["query"] == 'host:* AND cluster:c1 AND sf_metric:"cpu.utilization"'


@pytest.mark.parametrize(
    ("cluster", "query"),
    [
        ("", 'host:*.dev AND sf_metric:"cpu.utilization"'),
        ("c1", 'host:*.dev AND cluster:c1 AND sf_metric:"cpu.utilization"'),
        ("c-1", 'host:*.dev AND cluster:"c-1" AND sf_metric:"cpu.utilization"'),
    ],
)
def test_signalfx_selects_a_cluster_only_if_one_is_named(cluster: str, query: str) -> None:
    assert signalfx.query('sf_metric:"cpu.utilization"', HostFilter(".dev", cluster)) == query


async def test_datadog_returns_the_utilization_by_the_agents_metrics(datadog_source: Source) -> None:
    client = build("Datadog", datadog_source, applicationKey="app")
    fetched = await client.fetch(WINDOW)
    await client.close()
    assert {name: [(m.type, m.operator, m.value) for m in node.metrics] for name, node in fetched.nodes.items()} == {
        "h1": [("CPU", "AVG", 25.0), ("Memory", "AVG", 50.0)]  # h2 has only one of the two CPU metrics
    }
    assert fetched.problems == ["a series of system.cpu.user has no points"]
    (asked,) = datadog_source.asked
    assert (asked.headers["dd-api-key"], asked.headers["dd-application-key"]) == ("key", "app")
    attributes = json.loads(asked.body)["data"]["attributes"]
    assert (attributes["from"], attributes["to"]) == (100_000, 1_000_000)
    assert [query["query"] for query in attributes["queries"]] == [
        "avg:system.cpu.user{host:*} by {host}.rollup(avg, 60)",
        "avg:system.cpu.system{host:*} by {host}.rollup(avg, 60)",
        "avg:system.mem.pct_usable{host:*} by {host}.rollup(avg, 60)",
    ]


async def test_datadog_reads_the_named_metrics_of_the_named_cluster(datadog_source: Source) -> None:
    named = {"cpuMetric": "cpu.utilization", "memoryMetric": "memory.utilization", "clusterName": "c1"}
    client = build("Datadog", datadog_source, applicationKey="app", **named)
    with pytest.raises(ProviderFailed, match="not a Datadog time series response"):  # it has a third metric
        await client.fetch(WINDOW)
    await client.close()
    (asked,) = datadog_source.asked
    assert [query["query"] for query in json.loads(asked.body)["data"]["attributes"]["queries"]] == [
        "avg:cpu.utilization{host:*, cluster_name:c1} by {host}.rollup(avg, 60)",
        "avg:memory.utilization{host:*, cluster_name:c1} by {host}.rollup(avg, 60)",
    ]


async def test_health_uses_the_keys(signalfx_source: Source, datadog_source: Source) -> None:
    for kind, source in (("SignalFx", signalfx_source), ("Datadog", datadog_source)):
        client = build(kind, source, applicationKey="app")
        assert await client.is_healthy()
        assert not await client.check()
        await client.close()
    assert {(asked.method, asked.path) for asked in datadog_source.asked} == {("GET", "/api/v1/validate")}
    assert {(asked.method, asked.path, asked.query["limit"]) for asked in signalfx_source.asked} == {
        ("GET", "/v2/metrictimeseries", "1")
    }


@pytest.mark.parametrize("kind", ["SignalFx", "Datadog"])
async def test_rejects_a_response_of_another_shape(kind: str) -> None:
    with metrics_source.answering(lambda _asked: Answer(b'{"message": "hello"}')) as source:
        client = build(kind, source, applicationKey="app")
        with pytest.raises(ProviderFailed, match=f"the response is not a {kind} "):
            await client.fetch(WINDOW)
        assert await client.is_healthy()
        await client.close()


@pytest.mark.parametrize("kind", ["SignalFx", "Datadog"])
async def test_b5_health_checks_the_configured_address(kind: str) -> None:
    with metrics_source.answering(lambda _asked: Answer(b"", 503)) as source:
        client = build(kind, source, applicationKey="app")
        assert not await client.is_healthy()
        assert await client.check()
        await client.close()
    assert source.asked
