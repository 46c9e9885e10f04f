"""Tests of the stock Trimaran client against a running load watcher."""

from __future__ import annotations

import json
import math
import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer, Asked
from tests.scheduler_plugin.load_watcher import stock_client, test_process
from tests.scheduler_plugin.load_watcher.stock_client import Metric


class Running(NamedTuple):
    address: str
    body: bytes
    """First document that it served."""


@pytest.fixture(scope="module")
def watcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run a watcher of two nodes: one with a deviation from rounding errors alone, and one without usable data."""

    def answer(asked: Asked) -> Answer:
        is_deviation = b"stddev" in asked.body
        samples = [("node-1", "4.4e-18" if is_deviation else "0.25"), ("node-2", "NaN")]
        result = [{"metric": {"instance": name}, "value": [1, value]} for name, value in samples]
        return Answer(json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode())

    with metrics_source.answering(answer) as source:
        process = test_process.start(source, tmp_path_factory.mktemp("watcher"))
        port = test_process.port_of(process)
        yield Running(f"http://127.0.0.1:{port}", test_process.metrics_of(port))
        process.terminate()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def test_the_stock_client_reads_the_records_that_its_plugins_select(watcher: Running) -> None:
    nodes = stock_client.metrics_by_node(watcher.address)
    cpu, memory = "instance:node_cpu_utilisation:rate1m", "instance:node_memory_utilisation:ratio"
    assert nodes == {
        "node-1": [
            Metric(cpu, "CPU", "AVG", "15m", 25.0),
            Metric(cpu, "CPU", "STD", "15m", 0.0),
            Metric(memory, "Memory", "AVG", "15m", 25.0),
            Metric(memory, "Memory", "STD", "15m", 0.0),
        ]
    }


def test_the_document_has_upstreams_keys_in_upstreams_order(watcher: Running) -> None:
    top = json.loads(watcher.body)
    assert list(top) == ["timestamp", "window", "source", "data"]
    assert list(top["window"]) == ["duration", "start", "end"]
    assert list(top["data"]) == ["NodeMetricsMap"]
    nodes = top["data"]["NodeMetricsMap"]
    node, rejected = nodes["node-1"], nodes["node-2"]
    assert (rejected["metrics"], rejected["rejected"]) == ([], ["CPU", "Memory"])
    assert list(node) == ["metrics", "tags", "metadata"]
    assert list(node["metadata"])[:1] == ["dataCenter"]  # KEP-61's `pool` follows
    for metric in node["metrics"]:
        assert list(metric) == ["name", "type", "operator", "rollup", "value"]
    assert {type(top[key]) for key in ("timestamp",)} | {type(top["window"][key]) for key in ("start", "end")} == {int}
    assert all(math.isfinite(metric["value"]) for metric in node["metrics"])


def test_responses_have_a_json_type_and_the_client_reports_the_status_of_an_unknown_path(watcher: Running) -> None:
    request = urllib.request.Request(f"{watcher.address}/watcher", headers=stock_client.HEADERS)
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert answer.headers["Content-Type"] == "application/json"
    with pytest.raises(stock_client.Refused, match="received status code 404 from watcher"):
        stock_client.metrics_by_node(f"{watcher.address}/nowhere")
