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
from hypothesis import given
from hypothesis import strategies as st

from component_base import http_endpoint
from component_base.http_endpoint import Page, ProbeResult
from scheduler_plugin.load_watcher import records, rest
from scheduler_plugin.load_watcher.records import Data, Metadata, Metric, NodeMetrics, Snapshot, Window, Windows
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


def test_g9_no_data_yet_is_404_with_the_reason(server: Server) -> None:
    answer = server.get("/watcher")
    assert (answer.status, answer.body) == (404, b"no provider has answered for 15m or 10m or 5m yet")


def test_b2_old_data_is_404_with_its_age(server: Server) -> None:
    server.windows.store(snapshot("15m", NOW - 1000, worker1=1.0))
    answer = server.get("/watcher")
    assert answer.status == 404
    assert b"15m: 1000 s old; at most 300 s" in answer.body


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


SENT = Snapshot(
    1556987522,
    Window("15m", 1556984522, 1556985422),
    "InfluxDB",
    Data(
        {
            "node-1": NodeMetrics(
                [Metric(name="used", type="CPU", operator="AVG", value=20.0)],
                {"rack": "7"},
                Metadata("data-center-1", "critical-apps"),
            )
        }
    ),
)


def test_encodes_the_document_of_the_kep() -> None:
    assert json.loads(rest.encode_kep(SENT)) == {
        "timestamp": 1556987522,
        "window": {"duration": "15m", "start": 1556984522, "end": 1556985422},
        "source": "InfluxDB",
        "data": {
            "node-1": {
                "metrics": [{"name": "used", "type": "cpu", "rollup": "AVG", "value": 20}],
                "tags": {"rack": "7"},
                "metadata": {"dataCenter": "data-center-1", "pool": "critical-apps"},
            }
        },
    }


METRICS = st.builds(
    Metric,
    name=st.text(max_size=9),
    type=st.sampled_from(["CPU", "Memory", "Bandwidth", "future"]),
    operator=st.sampled_from(["AVG", "STD", "Latest", ""]),
    value=st.floats(0.0, 1e15, allow_nan=False),
)
NODES = st.builds(
    NodeMetrics,
    metrics=st.lists(METRICS, max_size=4),
    tags=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    metadata=st.builds(Metadata, data_center=st.text(max_size=5), pool=st.text(max_size=5)),
)


@given(st.dictionaries(st.text(max_size=9) | st.just("1234"), NODES, max_size=3))
def test_every_document_is_valid_by_the_served_schema(nodes: dict[str, NodeMetrics]) -> None:
    document = json.loads(rest.encode_kep(Snapshot(1, Window("15m", 0, 900), "InfluxDB", Data(nodes))))
    schema = json.loads(rest.KEP_SCHEMA_TEXT)
    jsonschema.Draft4Validator.check_schema(schema)
    jsonschema.Draft4Validator(schema).validate(document)


@pytest.mark.parametrize("key", ["timestamp", "window", "source", "data"])
def test_the_schema_requires_the_keys_of_the_kep(key: str) -> None:
    document = json.loads(rest.encode_kep(SENT))
    del document[key]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(rest.KEP_SCHEMA).validate(document)
