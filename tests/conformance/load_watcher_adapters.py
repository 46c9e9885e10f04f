"""Map the cases about the load watcher to scheduler_plugin/load_watcher."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import prometheus_client

from component_base.http_client import Reach
from component_base.http_endpoint import HttpEndpoint, Page, ProbeResult, Route
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher import settings as watcher_settings
from scheduler_plugin.load_watcher.providers import remote_watcher
from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.providers.remote_watcher import LoadWatcherProvider
from scheduler_plugin.load_watcher.records import (
    DURATIONS_SECONDS,
    Data,
    Metric,
    NodeMetrics,
    NoMetrics,
    Snapshot,
    Window,
    Windows,
)
from scheduler_plugin.load_watcher.rest import WatcherApi
from scheduler_plugin.load_watcher.watcher import Watcher

NOW = 1_700_000_000


def _metric(wire: Mapping[str, Any]) -> Metric:
    return Metric(**{**wire, "value": float(wire["value"])})


def _nodes(wire: Mapping[str, Any]) -> dict[str, NodeMetrics]:
    return {name: NodeMetrics([_metric(metric) for metric in metrics]) for name, metrics in wire.items()}


def metrics_of(nodes: Mapping[str, NodeMetrics]) -> dict[str, Any]:
    """Return the metrics of each node as cases have them."""
    return {name: [msgspec.structs.asdict(metric) for metric in node.metrics] for name, node in nodes.items()}


def _windows(inputs: Any) -> Windows:
    kept = Windows(300)
    if inputs.get("started", True):
        for duration, nodes in (inputs.get("windows") or {}).items():
            window = records.window_ending_at(duration, NOW)
            kept.store(Snapshot(NOW, window, inputs.get("source") or "", Data(_nodes(nodes or {}))))
    return kept


class _Response(NamedTuple):
    status: int
    content_type: str
    body: bytes


@contextlib.contextmanager
def served(routes: Mapping[str, Route]) -> Iterator[HttpEndpoint]:
    def probe() -> ProbeResult:
        return ProbeResult(True, "")

    registry = prometheus_client.CollectorRegistry()
    endpoint = HttpEndpoint("127.0.0.1", 0, health=probe, ready=probe, registry=registry, routes=routes)
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.stop()


def _respond(inputs: Any, kept: Windows) -> _Response:
    """Send the request of a case to the REST API, over a socket."""
    method, target = inputs["request"].split(" ", 1)
    is_healthy = inputs.get("healthy", (inputs.get("providerHealth") or 0) == 0)
    with served(WatcherApi(kept, lambda: NOW, lambda: ProbeResult(is_healthy, "")).routes()) as endpoint:
        connection = http.client.HTTPConnection("127.0.0.1", endpoint.port)
        with contextlib.closing(connection):
            connection.request(method, target)
            response = connection.getresponse()
            return _Response(response.status, response.headers["Content-Type"], response.read())


def _http(inputs: Any, expected: Any) -> str | None:
    """Compare the stated parts: of the document all keys in `jsonContains`, and the names of its nodes."""
    response = _respond(inputs, _windows(inputs))
    seen: dict[str, Any] = {"status": response.status, "contentType": response.content_type}
    try:
        document = json.loads(response.body)
    except ValueError:
        seen["body"] = response.body.decode()
    else:
        nodes = document["data"]["NodeMetricsMap"]
        seen |= {f"window.{key}": value for key, value in document["window"].items()}
        seen |= {"source": document["source"], "body": document, "onlyHosts": sorted(nodes), "nodes": sorted(nodes)}
        seen |= {"nodeMetrics": {name: node["metrics"] for name, node in nodes.items()}}
        seen["jsonContains"] = _part_of(document, expected.get("jsonContains"))
    wrong = {key: seen.get(key) for key, value in expected.items() if seen.get(key) != _in_order(key, value)}
    return f"expected {expected}, came {wrong}" if wrong else None


def _in_order(key: str, value: Any) -> Any:
    return sorted(value) if key in ("onlyHosts", "nodes") else value


def _part_of(whole: Any, stated: Any, at: str = "") -> Any:
    """Return the part of a document under the stated keys. Nodes without an entry mean that there is none."""
    if isinstance(whole, dict) and isinstance(stated, dict) and (stated or at != "NodeMetricsMap"):
        return {key: _part_of(whole[key], value, key) for key, value in stated.items() if key in whole}
    return whole


def _latest(inputs: Any) -> Any:
    try:
        snapshot = _windows(inputs).latest(inputs["duration"], NOW)
    except NoMetrics as error:
        return {"error": str(error), "nodeMetrics": None}
    return {
        "error": None,
        "nodeMetrics": metrics_of(snapshot.data.nodes),
        "window.duration": snapshot.window.duration,
        "source": snapshot.source,
    }


def _cache(inputs: Any) -> Any:
    kept = Windows(300)
    for timestamp in inputs["appendTimestamps"]:
        kept.store(Snapshot(timestamp, records.window_ending_at(inputs["window"], NOW)))
    return {"timestamps": [snapshot.timestamp for snapshot in kept.kept(inputs["window"])]}


class _Asked:
    """Provider that records the requested windows."""

    name = "asked"
    has_deviation = False

    def __init__(self) -> None:
        self.durations: list[str] = []

    async def check(self) -> Sequence[str]:
        return ()

    async def fetch(self, window: Window) -> Fetched:
        self.durations.append(window.duration)
        return Fetched({})

    async def is_healthy(self) -> bool:
        return True

    async def close(self) -> None:
        return


async def _two_rounds() -> list[str]:
    provider = _Asked()
    running = asyncio.create_task(Watcher([provider], Windows(300), clock=lambda: NOW).run(0))
    while len(provider.durations) < 2 * len(DURATIONS_SECONDS):
        await asyncio.sleep(0)
    running.cancel()
    return provider.durations[: 2 * len(DURATIONS_SECONDS)]


def _encode(inputs: Any) -> Any:
    """Serve nodes, and read the document as the client of another load watcher does."""
    kept = _windows({"windows": {"15m": inputs["nodeMetrics"]}})
    response = _respond({"request": "GET /watcher"}, kept)
    try:
        remote_watcher.read(response.body, "http://watcher:2020", now=NOW)
    except ProviderFailed as error:
        return {"error": str(error)}
    return {"error": None, "upstreamStatus": response.status, "upstreamBodyIsValidJSON": True}


def _options(inputs: Any) -> Any:
    (spec,) = watcher_settings.from_environment(inputs.get("env") or {})
    return {
        "name": spec.type,
        "address": spec.address,
        "authToken": spec.token.get_secret_value(),
        "applicationKey": spec.application_key.get_secret_value(),
        "insecureSkipVerify": spec.insecure_skip_verify,
    }


def _service_client(inputs: Any) -> Any:
    """Read a document over a socket."""
    body = inputs.get("body")
    text = body if isinstance(body, str) else json.dumps(body)
    page = Page("application/json", text.encode(), HTTPStatus(inputs.get("status") or HTTPStatus.OK))
    with served({"/watcher": lambda _query: page}) as endpoint:
        try:
            fetched = asyncio.run(_fetched(f"http://127.0.0.1:{endpoint.port}"))
        except ProviderFailed as error:
            return {"error": str(error), "nodes": []}
    return {"error": None, "nodes": sorted(fetched.nodes), "nodeMetrics": metrics_of(fetched.nodes)}


async def _fetched(address: str) -> Fetched:
    provider = LoadWatcherProvider(Reach(address, remote_watcher.headers, remote_watcher.TIMEOUT_SECONDS))
    try:
        return await provider.fetch(records.window_ending_at("15m", NOW))
    finally:
        await provider.close()


_A_METRIC = {"type": "CPU", "operator": "AVG", "value": 20}


def _designed_http(inputs: Any) -> Any:
    """Send a request to the REST API of a watcher that has two nodes, one of them named by the path, or none."""
    asked = inputs["request"].partition(" /watcher/")[2] or "node-1"
    nodes = {asked: [_A_METRIC], f"not-{asked}": [_A_METRIC]}
    response = _respond(inputs, _windows({"windows": {"15m": nodes} if inputs.get("haveMetrics", True) else {}}))
    if response.status != HTTPStatus.OK:
        return {"status": response.status}
    hosts = sorted(json.loads(response.body)["data"]["NodeMetricsMap"])
    return {"status": response.status, "allNodes": hosts == sorted(nodes), "onlyHosts": hosts}


_A_NODE = {"15m": {"node-1": [_A_METRIC]}}

ADAPTERS = {
    "loadwatcher.getLatest": _latest,
    "loadwatcher.route": lambda inputs: {"status": _respond(inputs, _windows({"windows": _A_NODE, **inputs})).status},
    "loadwatcher.cache": _cache,
    "loadwatcher.fetchOrder": lambda _inputs: {"durations": asyncio.run(_two_rounds())},
    "loadwatcher.encode": _encode,
    "loadwatcher.envOptions": _options,
    "loadwatcher.serviceClient": _service_client,
    "kep61.http": _designed_http,
}

CHECKS = {"loadwatcher.http": _http}


def _windows_given(case: Mapping[str, Any]) -> set[str]:
    inputs = case["input"]
    return set(inputs.get("windows") or {}) if inputs.get("started", True) else set()


def _asks_for_all(case: Mapping[str, Any]) -> bool:
    return urlsplit(case["input"]["request"].split(" ", 1)[1]).path == "/watcher"


def _has_no_window(case: Mapping[str, Any]) -> bool:
    return _asks_for_all(case) and not _windows_given(case)


def _routes_without_window(case: Mapping[str, Any]) -> bool:
    return ("windows" in case["input"] or not case["input"].get("started", True)) and _has_no_window(case)


def _has_shortest_alone(case: Mapping[str, Any]) -> bool:
    return _windows_given(case) == {"5m"}


def _names_a_node(case: Mapping[str, Any]) -> bool:
    """Return whether the path names a known node: upstream has no such page."""
    windows = case["input"].get("windows", _A_NODE)
    node = case["input"]["request"].partition(" /watcher/")[2]
    return any(node in nodes for nodes in windows.values())


def _changes_something(case: Mapping[str, Any]) -> bool:
    return case["input"]["request"].split(" ", 1)[0] not in ("GET", "HEAD", "POST")


def _has_no_number(case: Mapping[str, Any]) -> bool:
    nodes = case["input"]["nodeMetrics"].values()
    return any(not math.isfinite(float(metric["value"])) for metrics in nodes for metric in metrics)


_PATH = "KEP-61 has /watcher/{host}, upstream does not"
_NOT_FOUND = "KEP-61: without data the status is 404 with a reason, not 500"
_SHORTEST = "KEP-61: a request for 15 minutes falls back to the 5 minute window"
_METHODS = "decision 17: methods other than GET, HEAD and POST are refused, because no page changes anything"

DIFFERENT_ON_PURPOSE = (
    ("loadwatcher.http", _names_a_node, _PATH),
    ("loadwatcher.route", _names_a_node, _PATH),
    ("loadwatcher.http", _has_no_window, _NOT_FOUND),
    ("loadwatcher.route", _routes_without_window, _NOT_FOUND),
    ("loadwatcher.http", _has_shortest_alone, _SHORTEST),
    (
        "loadwatcher.getLatest",
        lambda case: case["input"]["duration"] == "15m" and _has_shortest_alone(case),
        _SHORTEST,
    ),
    ("loadwatcher.http", _changes_something, _METHODS),
    ("loadwatcher.route", _changes_something, _METHODS),
    ("loadwatcher.encode", _has_no_number, "NaN and infinite values are dropped, so that the document stays JSON"),
)
