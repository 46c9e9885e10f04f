"""Tests with responses in the format of InfluxDB 2.7; e2e uses the real server."""

from __future__ import annotations

import pytest

from component_base.http_client import Reach
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import influxdb
from scheduler_plugin.load_watcher.providers.provider import KnownNode, ProviderFailed
from scheduler_plugin.load_watcher.records import Window
from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer

NODES = {"n1": KnownNode(4000, 1000)}
WINDOW = records.window_ending_at("5m", 1_700_000_000)
ROWS = (
    ",result,table,_value,_field,node\r\n"
    ",AVG,0,1.5,cpu_cores,n1\r\n"
    ",AVG,1,250,memory_bytes,n1\r\n"
    ",AVG,2,9,cpu_cores,stranger\r\n"
    "\r\n"
    ",result,table,_value,_field,node\r\n"
    ",STD,0,0.2,cpu_cores,n1\r\n"
    "\r\n"
    ",result,table,_time,_value,_field,node\r\n"
    ",LAST,0,2023-11-14T22:12:40Z,1.4,cpu_cores,n1\r\n"
    ",LAST,1,2023-11-14T22:12:50Z,260,memory_bytes,n1\r\n"
)


def provider(address: str) -> influxdb.InfluxDbProvider:
    reach = Reach(address, lambda: {"Authorization": "Token t"}, 2.0)
    return influxdb.InfluxDbProvider(reach, "koord", "history", lambda: NODES)


async def test_returns_mean_and_deviation_in_percent_of_capacity_up_to_the_last_point() -> None:
    with metrics_source.answering(lambda _asked: Answer(ROWS.encode())) as source:
        client = provider(source.address)
        fetched = await client.fetch(WINDOW)
        await client.close()
    assert [(metric.type, metric.operator, metric.value) for metric in fetched.nodes["n1"].metrics] == [
        ("CPU", "AVG", 37.5),
        ("Memory", "AVG", 25.0),
        ("CPU", "STD", 5.0),
    ]
    assert fetched.nodes.keys() == {"n1"}
    assert fetched.nodes["n1"].window == Window("5m", WINDOW.start, WINDOW.end - 40)
    (asked,) = source.asked
    assert (asked.path, asked.query, asked.headers["authorization"]) == ("/api/v2/query", {"org": "koord"}, "Token t")
    assert f"range(start: {WINDOW.start}, stop: {WINDOW.end})" in asked.body.decode()


async def test_an_error_status_is_reported_with_the_servers_text() -> None:
    with metrics_source.answering(lambda _asked: Answer(b'{"message":"bucket not found"}', 404)) as source:
        client = provider(source.address)
        with pytest.raises(ProviderFailed, match=r"404: .*bucket not found"):
            await client.fetch(WINDOW)
        await client.close()


async def test_check_reports_a_bucket_without_koordlet_points() -> None:
    with metrics_source.answering(lambda _asked: Answer(b"")) as source:
        client = provider(source.address)
        assert list(await client.check()) == [
            f"{source.address}: bucket 'history' has no koordlet_usage of nodes in the last hour"
        ]
        await client.close()


@pytest.mark.parametrize("bucket", ['a"b', "a\\b", "${x}"])
def test_the_name_of_a_bucket_is_quoted(bucket: str) -> None:
    text = influxdb.flux(bucket, WINDOW)
    inside = text[text.index('"') + 1 : text.index('") |> range')]
    assert inside.replace("\\\\", "").replace('\\"', "").replace("\\$", "").count('"') == 0
    assert "${" not in inside.replace("\\${", "")


async def test_rejects_a_response_that_ends_with_an_error_table() -> None:
    broken = ROWS + "\r\n,error,reference\r\n,Failed to parse query,897\r\n"
    with metrics_source.answering(lambda _asked: Answer(broken.encode())) as source:
        client = provider(source.address)
        with pytest.raises(ProviderFailed, match="aborted the query: Failed to parse query"):
            await client.fetch(WINDOW)
        await client.close()
