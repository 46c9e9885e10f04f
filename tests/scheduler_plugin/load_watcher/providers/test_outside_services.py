"""Tests of SignalFx and Datadog against a server that returns recorded responses."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec, registry
from scheduler_plugin.load_watcher.providers.provider import Provider, ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer, Asked, Source

WINDOW = records.window_ending_at("15m", 1000)
CONTEXT = registry.ProviderContext(dict, dict, None)


def signalfx_answer(asked: Asked) -> Answer:
    if asked.path == "/v1/timeserieswindow":
        return Answer(json.dumps({"data": {"a": [[1, 10], [2, 20], [3, 60]], "b": [], "c": [[1, 7]]}}).encode())
    results = [{"id": "a", "dimensions": {"host": "h1.x.y"}}, {"id": "b", "dimensions": {"host": "h2"}}]
    return Answer(json.dumps({"results": results}).encode())


def datadog_answer(_asked: Asked) -> Answer:
    series = [
        {"group_tags": ["host:h1.dev"], "query_index": 0},
        {"group_tags": ["host:h1.dev"], "query_index": 1},
        {"group_tags": ["host:h2"], "query_index": 0},
    ]
    values = [[10, None, 30], [40, 40], [None, None]]
    attributes = {"series": series, "times": [1, 2, 3], "values": values}
    return Answer(json.dumps({"data": {"type": "timeseries_response", "attributes": attributes}}).encode())


@pytest.fixture
def signalfx_source() -> Iterator[Source]:
    with metrics_source.answering(signalfx_answer) as source:
        yield source


@pytest.fixture
def datadog_source() -> Iterator[Source]:
    with metrics_source.answering(datadog_answer) as source:
        yield source


def build(kind: str, source: Source, **more: str) -> Provider:
    spec = ProviderSpec.model_validate({"type": kind, "address": source.address, "token": "key", **more})
    assert provider_spec.problems(spec) == []
    return registry.build(spec, CONTEXT)


async def test_signalfx_returns_the_mean_of_each_series_of_a_host(signalfx_source: Source) -> None:
    client = build("SignalFx", signalfx_source, clusterName="c1")
    fetched = await client.fetch(WINDOW)
    await client.close()
    assert {name: [(m.type, m.operator, m.value) for m in node.metrics] for name, node in fetched.nodes.items()} == {
        "h1": [("CPU", "AVG", 30.0), ("Memory", "AVG", 30.0)]
    }
    assert {asked.headers["x-sf-token"] for asked in signalfx_source.asked} == {"key"}
    assert signalfx_source.asked[0].query["startMs"] == "100000"
    assert "cluster:c1" in signalfx_source.asked[0].query["query"]


async def test_datadog_returns_the_mean_of_the_existing_points(datadog_source: Source) -> None:
    client = build("Datadog", datadog_source, applicationKey="app")
    fetched = await client.fetch(WINDOW)
    await client.close()
    assert {name: [(m.type, m.operator, m.value) for m in node.metrics] for name, node in fetched.nodes.items()} == {
        "h1": [("CPU", "AVG", 20.0), ("Memory", "AVG", 40.0)]
    }
    assert fetched.problems == ["a series of max:cpu.utilization has no points"]
    (asked,) = datadog_source.asked
    assert (asked.headers["dd-api-key"], asked.headers["dd-application-key"]) == ("key", "app")
    assert json.loads(asked.body)["data"]["attributes"]["from"] == 100_000


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
