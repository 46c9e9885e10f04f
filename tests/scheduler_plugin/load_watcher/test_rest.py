"""Tests over a real socket and the HTTP endpoint of the process."""

from __future__ import annotations

import functools
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import jsonschema
import prometheus_client
import pytest

from component_base import http_endpoint
from component_base.http_endpoint import Page, ProbeResult
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot, Windows
from scheduler_plugin.load_watcher.rest import WatcherApi

NOW = 1_700_000_000


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


class Server:
    """REST API over windows that the test fills."""

    def __init__(self) -> None:
        self.empty()
        self.endpoint = http_endpoint.HttpEndpoint(
            "127.0.0.1",
            0,
            health=lambda: ProbeResult(True, ""),
            ready=lambda: self.probe_result,
            registry=prometheus_client.CollectorRegistry(),
            routes={path: functools.partial(self._route, path) for path in self.api.routes()},
        )

    def empty(self) -> None:
        self.windows = Windows(300)
        self.probe_result = ProbeResult(True, "")
        self.api = WatcherApi(self.windows, lambda: NOW, lambda: self.probe_result)

    def _route(self, path: str, query: Mapping[str, str]) -> Page:
        return self.api.routes()[path](query)

    def get(self, path: str, method: str = "GET") -> Answer:
        request = urllib.request.Request(f"http://127.0.0.1:{self.endpoint.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return Answer(reply.status, reply.headers["Content-Type"], reply.read())
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, refused.headers["Content-Type"], refused.read())


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    listening = Server()
    listening.endpoint.start()
    yield listening
    listening.endpoint.stop()


@pytest.fixture
def server(running: Server) -> Server:
    running.empty()
    return running


def snapshot(duration: str, ended: int = NOW, **cpu: float) -> Snapshot:
    nodes = {name: NodeMetrics([Metric(type="CPU", operator="AVG", value=value)]) for name, value in cpu.items()}
    return Snapshot(ended, records.window_ending_at(duration, ended), "NodeMetric", Data(nodes))


@pytest.fixture
def filled(server: Server) -> Server:
    for duration, value in {"15m": 26.0, "10m": 22.0, "5m": 21.0}.items():
        server.windows.store(snapshot(duration, worker1=value, worker2=60.0))
    return server


def test_serves_every_node_in_upstreams_document(filled: Server) -> None:
    answer = filled.get("/watcher")
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert records.decode(answer.body) == filled.windows.latest("15m", NOW)


@pytest.mark.parametrize(("window", "value"), [("15m", 26.0), ("10m", 22.0), ("5m", 21.0)])
def test_g10_serves_each_window(filled: Server, window: str, value: float) -> None:
    found = records.decode(filled.get(f"/watcher?window={window}").body)
    assert found.window.duration == window
    assert found.data.nodes["worker1"].metrics[0].value == value


@pytest.mark.parametrize("path", ["/watcher?host=worker2", "/watcher/worker2"])
def test_g9_serves_one_node_by_query_and_by_path(filled: Server, path: str) -> None:
    assert list(records.decode(filled.get(path).body).data.nodes) == ["worker2"]


@pytest.mark.parametrize("path", ["/watcher?host=deadbeef", "/watcher/deadbeef"])
def test_an_unknown_node_is_404_with_upstreams_text(filled: Server, path: str) -> None:
    assert filled.get(path) == Answer(404, "application/json", b"No metrics found for host deadbeef")


def test_a_path_without_a_node_is_404_and_names_the_page_of_all_nodes(filled: Server) -> None:
    answer = filled.get("/watcher/")
    assert (answer.status, answer.body) == (404, b"/watcher/ names no node; every node is at /watcher")


def test_an_empty_host_means_every_node(filled: Server) -> None:
    assert filled.get("/watcher?host=") == filled.get("/watcher")


def test_g9_no_data_yet_is_404_with_the_reason(server: Server) -> None:
    answer = server.get("/watcher")
    assert (answer.status, answer.body) == (404, b"no provider has answered for 15m or 10m or 5m yet")


def test_b2_old_data_is_404_with_its_age(server: Server) -> None:
    server.windows.store(snapshot("15m", NOW - 1000, worker1=1.0))
    answer = server.get("/watcher")
    assert answer.status == 404
    assert b"15m: 1000 s old; at most 300 s" in answer.body


def test_serves_the_newest_snapshot(filled: Server) -> None:
    before = filled.get("/watcher").body
    filled.windows.store(snapshot("15m", worker1=99.0))
    assert before != filled.get("/watcher").body
    assert records.decode(filled.get("/watcher").body).data.nodes["worker1"].metrics[0].value == 99.0


def test_serves_the_document_of_the_kep(filled: Server) -> None:
    document = json.loads(filled.get("/watcher?format=kep&window=5m").body)
    assert document["data"]["worker1"]["metrics"][0] == {"name": "", "type": "cpu", "rollup": "AVG", "value": 21.0}


@pytest.mark.parametrize(("query", "text"), [("window=1m", b"wanted one of 15m"), ("format=xml", b"wanted kep")])
def test_a_wrong_parameter_is_400_with_the_accepted_values(filled: Server, query: str, text: bytes) -> None:
    answer = filled.get(f"/watcher?{query}")
    assert answer.status == 400
    assert text in answer.body


@pytest.mark.parametrize(("ok", "status"), [(True, 200), (False, 503)])
def test_b17_health_is_reported_by_status_alone(server: Server, ok: bool, status: int) -> None:
    server.probe_result = ProbeResult(ok, "why")
    assert server.get("/watcher/health")[::2] == (status, b"")


def test_the_openapi_document_describes_the_responses(filled: Server) -> None:
    document = json.loads(filled.get("/openapi.json").body)
    answer = document["paths"]["/watcher"]["get"]["responses"]["200"]
    schema = answer["content"]["application/json"]["schema"] | {"components": document["components"]}
    jsonschema.validate(json.loads(filled.get("/watcher").body), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"timestamp": "now"}, schema)


def test_every_method_is_served_as_get(filled: Server) -> None:
    assert filled.get("/watcher", method="POST") == filled.get("/watcher")
    head = filled.get("/watcher", method="HEAD")
    assert (head.status, head.body) == (200, b"")
