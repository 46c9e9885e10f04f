"""Tests against a server with Prometheus' API; e2e uses the real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from urllib.parse import parse_qs

import pytest

from component_base.http_client import Reach
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import prometheus
from scheduler_plugin.load_watcher.providers.provider import KnownNode
from scheduler_plugin.load_watcher.providers.provider_spec import PRESETS, Query
from scheduler_plugin.load_watcher.records import Metadata, MetricType, Window
from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer, Asked

WINDOW = records.window_ending_at("10m", 1_700_000_000)
NODES = {"n1": KnownNode(4000, 8 * 2**30, Metadata("dc-1")), "n2": KnownNode(2000, 4 * 2**30)}
CPU, MEMORY = Query("cpu:ratio", MetricType.CPU), Query("memory:ratio", MetricType.MEMORY)


def answer(*series: tuple[str, str]) -> Answer:
    result = [{"metric": {"instance": name}, "value": [1_700_000_000, value]} for name, value in series]
    return Answer(json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode())


def query_of(asked: Asked) -> str:
    return asked.query.get("query") or parse_qs(asked.body.decode())["query"][0]


def provider(address: str, queries: Sequence[Query] = (CPU, MEMORY)) -> prometheus.PrometheusProvider:
    headers = {"Authorization": "Bearer secret"}
    return prometheus.PrometheusProvider(
        Reach(address, lambda: headers, 2.0), queries, lambda: NODES, prometheus.NodeNames()
    )


async def test_queries_mean_and_deviation_of_each_series_over_the_window() -> None:
    with metrics_source.answering(lambda _asked: answer(("n1:9100", "0.25"))) as source:
        client = provider(source.address)
        fetched = await client.fetch(WINDOW)
        await client.close()
    assert {query_of(asked) for asked in source.asked} == {
        f"{method}({series}[10m])"
        for method in ("avg_over_time", "stddev_over_time")
        for series in ("cpu:ratio", "memory:ratio")
    } | {
        f"timestamp({series}) or max_over_time(timestamp({series})[10m:1m])" for series in ("cpu:ratio", "memory:ratio")
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


async def test_b4_a_failed_query_affects_only_its_own_part() -> None:
    def flaky(asked: Asked) -> Answer:
        if query_of(asked) == "avg_over_time(cpu:ratio[10m])":
            return Answer(b'{"status":"error","error":"query timed out"}', 503)
        return answer(("n1", "0.25"))

    with metrics_source.answering(flaky) as source:
        client = provider(source.address)
        fetched = await client.fetch(WINDOW)
        await client.close()
    assert len(fetched.nodes["n1"].metrics) == 3
    (problem,) = fetched.problems
    assert source.address in problem
    assert "503" in problem
    assert "query timed out" in problem


async def test_b5_health_checks_the_configured_address(closed_port: int) -> None:
    with metrics_source.answering(lambda _asked: answer()) as source:
        client = provider(source.address)
        assert await client.is_healthy()
        await client.close()
    assert [query_of(asked) for asked in source.asked] == ["vector(1)"]
    assert not await provider(f"http://127.0.0.1:{closed_port}").is_healthy()


async def test_converts_amounts_to_percent_of_the_nodes_capacity() -> None:
    values = {"koordlet_usage_cpu_cores": "1", "koordlet_usage_memory_bytes": str(2 * 2**30)}

    def koordlet(asked: Asked) -> Answer:
        text = query_of(asked)
        value = next(value for name, value in values.items() if name in text)
        return answer(("n1", value), ("stranger", value))

    with metrics_source.answering(koordlet) as source:
        client = provider(source.address, PRESETS["koordlet"])
        fetched = await client.fetch(WINDOW)
        await client.close()
    assert fetched.nodes.keys() == {"n1"}
    assert {(metric.type, metric.value) for metric in fetched.nodes["n1"].metrics} == {("CPU", 25.0), ("Memory", 25.0)}


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (answer(("n1", "1"), ("n2", "1")), None),
        (answer(), "cpu:ratio has no series, so it gives no CPU"),
        (
            answer(("n1:9100", "1"), ("n1:9200", "1")),
            "several series for 'n1', want one for each node",
        ),
        (answer(("10.0.0.7:9100", "1")), "'10.0.0.7' in label node or instance is not a node of this cluster"),
        (
            answer(("n1", "0.2"), ("n2", "31.5")),
            "cpu:ratio is 31.5 for 'n2', too much for a share of 1; check its unit",
        ),
        (Answer(b"<html>"), "returned 200 and no result of Prometheus"),
        (
            Answer(b'{"status":"success","data":{"resultType":"vector","result":[{"metric":null,"value":[1,"1"]}]}}'),
            "returned 200 and no result of Prometheus",
        ),
        (Answer(b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}'), "no result of Prometheus"),
    ],
)
async def test_check_reports_the_problems_of_a_query(reply: Answer, problem: str | None) -> None:
    with metrics_source.answering(lambda _asked: reply) as source:
        client = provider(source.address, [CPU])
        problems = await client.check()
        await client.close()
    assert len(problems) == (0 if problem is None else 1)
    assert problem is None or problem in problems[0]


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"node": "n1", "instance": "10.0.0.1:9100"}, "n1"),
        ({"instance": "n1:9100"}, "n1"),
        ({"instance": "n1"}, "n1"),
        ({"instance": "10.0.0.1:9100"}, "n1"),
        ({"instance": "[fd00::1]:9100"}, "n1"),
        ({"instance": "fd00::1"}, "n1"),
        ({"instance": "10.0.0.9:9100"}, "10.0.0.9"),
        ({}, ""),
    ],
)
def test_reads_the_node_name_from_a_label_with_a_name_or_an_address(labels: dict[str, str], name: str) -> None:
    by_address = {"10.0.0.1": "n1", "fd00::1": "n1"}
    assert prometheus.NodeNames(by_address=by_address).find(labels) == name


async def test_series_of_an_address_are_those_of_the_node_that_has_it() -> None:
    known = {"n1": NODES["n1"]._replace(addresses=("10.0.0.1", "fd00::1")), "n2": NODES["n2"]}
    replies = answer(("10.0.0.1:9100", "0.25"), ("n2:9100", "0.5"))
    with metrics_source.answering(lambda _asked: replies) as source:
        reach = Reach(source.address, dict, 2.0)
        for queries in ([CPU], PRESETS["node-exporter"]):
            client = prometheus.PrometheusProvider(reach, queries, lambda: known, prometheus.NodeNames())
            fetched = await client.fetch(WINDOW)
            assert await client.check() == []
            await client.close()
            assert {name: node.metrics[0].value for name, node in fetched.nodes.items()} == {"n1": 25.0, "n2": 50.0}
    assert fetched.nodes["n1"].metadata == Metadata("dc-1")


def stored(*series: tuple[str, float, float, float], warnings: Sequence[str] = ()) -> Callable[[Asked], Answer]:
    """Answer with series of one node: an extra label, mean, deviation and seconds since the newest sample."""

    def answered(asked: Asked) -> Answer:
        text = query_of(asked)
        place = 1 if text.startswith("avg") else 2 if text.startswith("stddev") else 3
        values = [(one[0], WINDOW.end - one[3] if place == 3 else one[place]) for one in series]
        result = [
            {"metric": {"instance": "n1:9100", "pod": pod}, "value": [WINDOW.end, str(value)]} for pod, value in values
        ]
        data = {"resultType": "vector", "result": result if "cpu" in text else result[::-1]}
        return Answer(json.dumps({"status": "success", "warnings": list(warnings), "data": data}).encode())

    return answered


OLD, NEW = ("old", 0.2, 0.05, 240.0), ("new", 0.9, 0.01, 10.0)
ENDED_HOT = ("old", 0.9, 0.01, 240.0), ("new", 0.2, 0.05, 10.0)
REPLICAS = ("a", 0.9, 0.01, 40.0), ("b", 0.2, 0.05, 10.0)


@pytest.mark.parametrize(
    ("series", "mean", "deviation"), [((OLD, NEW), 90.0, 1.0), (ENDED_HOT, 20.0, 5.0), (REPLICAS, 90.0, 1.0)]
)
@pytest.mark.parametrize("order", [1, -1])
async def test_of_several_series_of_a_node_one_counts_and_the_node_is_named(
    series: tuple[tuple[str, float, float, float], ...], mean: float, deviation: float, order: int
) -> None:
    with metrics_source.answering(stored(*series[::order])) as source:
        client = provider(source.address)
        fetched = await client.fetch(WINDOW)
        await client.close()
    values = [(metric.type, metric.operator, metric.value) for metric in fetched.nodes["n1"].metrics]
    assert values == [
        (kind, operator, value) for kind in ("CPU", "Memory") for operator, value in (("AVG", mean), ("STD", deviation))
    ]
    (problem,) = fetched.problems
    assert problem.startswith("CPU, Memory: several series for 'n1', want one for each node")


async def test_the_window_of_a_node_ends_with_its_newest_sample_and_warnings_are_problems() -> None:
    with metrics_source.answering(stored(OLD, warnings=["one store did not answer"])) as source:
        client = provider(source.address)
        fetched = await client.fetch(WINDOW)
        await client.close()
    assert fetched.nodes["n1"].window == Window("10m", WINDOW.start, WINDOW.end - 240)
    assert fetched.problems == [f"{source.address}: one store did not answer"]
