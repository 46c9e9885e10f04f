"""Against a server that speaks Prometheus' API; the real one is asked in e2e."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import parse_qs

import pytest

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.known_nodes import KnownNode
from scheduler_plugin.load_watcher.providers import prometheus, prometheus_queries
from scheduler_plugin.load_watcher.providers.http_source import Reach
from scheduler_plugin.load_watcher.providers.prometheus_queries import PRESETS, Query
from scheduler_plugin.load_watcher.providers.provider import ProviderFailed
from scheduler_plugin.load_watcher.records import Metadata, MetricType
from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer, Asked

WINDOW = records.window_ending_at("10m", 1_700_000_000)
NODES = {"n1": KnownNode(4000, 8 * 2**30, Metadata("dc-1")), "n2": KnownNode(2000, 4 * 2**30)}
CPU, MEMORY = Query("cpu:ratio", MetricType.CPU), Query("memory:ratio", MetricType.MEMORY)


def answer(*series: tuple[str, str]) -> Answer:
    result = [{"metric": {"instance": name}, "value": [1_700_000_000, value]} for name, value in series]
    return Answer(json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode())


def asked_for(asked: Asked) -> str:
    return asked.query.get("query") or parse_qs(asked.body.decode())["query"][0]


def provider(address: str, queries: Sequence[Query] = (CPU, MEMORY)) -> prometheus.PrometheusProvider:
    headers = {"Authorization": "Bearer secret"}
    return prometheus.PrometheusProvider(Reach(address, headers, 2.0), queries, lambda: NODES, prometheus.NodeNames())


async def test_each_query_is_asked_for_its_mean_and_deviation_over_the_window() -> None:
    with metrics_source.answering(lambda _asked: answer(("n1:9100", "0.25"))) as source:
        asking = provider(source.address)
        fetched = await asking.fetch(WINDOW)
        await asking.close()
    assert {asked_for(asked) for asked in source.asked} == {
        f"{method}({series}[10m])"
        for method in ("avg_over_time", "stddev_over_time")
        for series in ("cpu:ratio", "memory:ratio")
    }
    assert {asked.headers["authorization"] for asked in source.asked} == {"Bearer secret"}
    metrics = fetched.nodes["n1"].metrics
    assert [(metric.type, metric.operator, metric.rollup, metric.value) for metric in metrics] == [
        ("CPU", "AVG", "10m", 25.0),
        ("CPU", "STD", "10m", 25.0),
        ("Memory", "AVG", "10m", 25.0),
        ("Memory", "STD", "10m", 25.0),
    ]
    assert fetched.nodes["n1"].metadata == Metadata("dc-1")


async def test_b4_one_failed_query_costs_its_own_part() -> None:
    def flaky(asked: Asked) -> Answer:
        if asked_for(asked) == "avg_over_time(cpu:ratio[10m])":
            return Answer(b'{"status":"error","error":"query timed out"}', 503)
        return answer(("n1", "0.25"))

    with metrics_source.answering(flaky) as source:
        asking = provider(source.address)
        fetched = await asking.fetch(WINDOW)
        await asking.close()
    assert len(fetched.nodes["n1"].metrics) == 3
    (problem,) = fetched.problems
    assert source.address in problem
    assert "503" in problem
    assert "query timed out" in problem


async def test_when_every_query_fails_nothing_came() -> None:
    with metrics_source.answering(lambda _asked: Answer(b"no", 401)) as source:
        asking = provider(source.address)
        with pytest.raises(ProviderFailed, match="401: no"):
            await asking.fetch(WINDOW)
        assert not await asking.is_healthy()
        await asking.close()


async def test_a_server_that_takes_no_post_is_asked_by_get() -> None:
    def only_get(asked: Asked) -> Answer:
        return Answer(b"", 405) if asked.method == "POST" else answer(("n1", "0.5"))

    with metrics_source.answering(only_get) as source:
        asking = provider(source.address, [CPU])
        fetched = await asking.fetch(WINDOW)
        await asking.close()
    assert [metric.value for metric in fetched.nodes["n1"].metrics] == [50.0, 50.0]


async def test_b5_health_asks_the_configured_address() -> None:
    with metrics_source.answering(lambda _asked: answer()) as source:
        asking = provider(source.address)
        assert await asking.is_healthy()
        await asking.close()
    assert [asked_for(asked) for asked in source.asked] == ["vector(1)"]
    assert not await provider("http://127.0.0.1:9").is_healthy()


async def test_amounts_become_percent_of_the_nodes_capacity() -> None:
    values = {"koordlet_usage_cpu_cores": "1", "koordlet_usage_memory_bytes": str(2 * 2**30)}

    def koordlet(asked: Asked) -> Answer:
        text = asked_for(asked)
        value = next(value for name, value in values.items() if name in text)
        return answer(("n1", value), ("stranger", value))

    with metrics_source.answering(koordlet) as source:
        asking = provider(source.address, PRESETS["koordlet"])
        fetched = await asking.fetch(WINDOW)
        await asking.close()
    assert fetched.nodes.keys() == {"n1"}
    assert {(metric.type, metric.value) for metric in fetched.nodes["n1"].metrics} == {("CPU", 25.0), ("Memory", 25.0)}


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (answer(("n1", "1"), ("n2", "1")), None),
        (answer(), "cpu:ratio has no series, so CPU is not known from it"),
        (answer(("n1:9100", "1"), ("n1:9200", "1")), "several series for 'n1', want one a node"),
        (answer(("10.0.0.7:9100", "1")), "'10.0.0.7' by label node or instance is no node of this cluster"),
        (
            answer(("n1", "0.2"), ("n2", "31.5")),
            "cpu:ratio is 31.5 for 'n2', too much for a share of 1: what is its unit?",
        ),
        (Answer(b"<html>"), "no JSON"),
        (
            Answer(b'{"status":"success","data":{"resultType":"vector","result":[{"metric":null,"value":[1,"1"]}]}}'),
            "the answer is not Prometheus'",
        ),
        (Answer(b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}'), "want a vector"),
    ],
)
async def test_the_check_at_start_tells_what_a_query_does_not_deliver(reply: Answer, problem: str | None) -> None:
    with metrics_source.answering(lambda _asked: reply) as source:
        asking = provider(source.address, [CPU])
        problems = await asking.check()
        await asking.close()
    assert len(problems) == (0 if problem is None else 1)
    assert problem is None or problem in problems[0]


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"node": "n1", "instance": "10.0.0.1:9100"}, "n1"),
        ({"instance": "n1:9100"}, "n1"),
        ({"instance": "n1"}, "n1"),
        ({}, ""),
    ],
)
def test_a_series_names_its_node_by_label_and_without_port(labels: dict[str, str], name: str) -> None:
    assert prometheus.NodeNames().of(labels) == name


def test_an_expression_is_asked_as_a_subquery() -> None:
    text = prometheus_queries.text("1 - a", "avg_over_time", "5m", is_expression=True)
    assert text == "avg_over_time((1 - a)[5m:1m])"
