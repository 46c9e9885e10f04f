"""Answers are as InfluxDB 2.7 prints them; the real one is asked in e2e."""

from __future__ import annotations

import pytest

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.known_nodes import KnownNode
from scheduler_plugin.load_watcher.providers import influxdb
from scheduler_plugin.load_watcher.providers.http_source import Reach
from scheduler_plugin.load_watcher.providers.provider import ProviderFailed
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
)


def provider(address: str) -> influxdb.InfluxDbProvider:
    reach = Reach(address, {"Authorization": "Token t"}, 2.0)
    return influxdb.InfluxDbProvider(reach, influxdb.Bucket("koord", "history"), lambda: NODES)


async def test_mean_and_deviation_come_in_percent_of_capacity() -> None:
    with metrics_source.answering(lambda _asked: Answer(ROWS.encode())) as source:
        asking = provider(source.address)
        fetched = await asking.fetch(WINDOW)
        await asking.close()
    assert [(metric.type, metric.operator, metric.value) for metric in fetched.nodes["n1"].metrics] == [
        ("CPU", "AVG", 37.5),
        ("Memory", "AVG", 25.0),
        ("CPU", "STD", 5.0),
    ]
    assert fetched.nodes.keys() == {"n1"}
    (asked,) = source.asked
    assert (asked.path, asked.query, asked.headers["authorization"]) == ("/api/v2/query", {"org": "koord"}, "Token t")
    assert f"range(start: {WINDOW.start}, stop: {WINDOW.end})" in asked.body.decode()


async def test_a_refusal_is_told_with_what_the_server_says() -> None:
    with metrics_source.answering(lambda _asked: Answer(b'{"message":"bucket not found"}', 404)) as source:
        asking = provider(source.address)
        with pytest.raises(ProviderFailed, match=r"404: .*bucket not found"):
            await asking.fetch(WINDOW)
        await asking.close()


async def test_the_check_tells_that_the_bucket_holds_nothing_of_ours() -> None:
    with metrics_source.answering(lambda _asked: Answer(b"")) as source:
        asking = provider(source.address)
        assert list(await asking.check()) == [
            f"{source.address}: bucket 'history' holds no koordlet_usage of nodes of the last hour"
        ]
        await asking.close()


@pytest.mark.parametrize("bucket", ['a"b', "a\\b", "${x}"])
def test_the_name_of_a_bucket_cannot_leave_its_quotes(bucket: str) -> None:
    text = influxdb.flux(bucket, WINDOW)
    inside = text[text.index('"') + 1 : text.index('") |> range')]
    assert inside.replace("\\\\", "").replace('\\"', "").replace("\\$", "").count('"') == 0
    assert "${" not in inside.replace("\\${", "")


def test_a_row_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ProviderFailed, match="cannot be read"):
        influxdb.percents(ROWS.replace("1.5", "much"), "5m", NODES)


def test_what_is_no_table_is_an_error() -> None:
    with pytest.raises(ProviderFailed, match="is no CSV"):
        influxdb.percents("{" + "x" * 200_000, "5m", NODES)


async def test_an_answer_that_breaks_off_with_an_error_is_no_answer() -> None:
    broken = ROWS + "\r\n,error,reference\r\n,Failed to parse query,897\r\n"
    with metrics_source.answering(lambda _asked: Answer(broken.encode())) as source:
        asking = provider(source.address)
        with pytest.raises(ProviderFailed, match="broke off its answer: Failed to parse query"):
            await asking.fetch(WINDOW)
        await asking.close()
