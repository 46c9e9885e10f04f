"""Adapters of the cases about the load watcher and its providers to scheduler_plugin/load_watcher."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from api_types.kubernetes import pods
from component_base.http_endpoint import Page, ProbeResult
from scheduler_plugin.load_watcher import analysis, known_nodes, records
from scheduler_plugin.load_watcher import settings as watcher_settings
from scheduler_plugin.load_watcher.known_nodes import KnownNode
from scheduler_plugin.load_watcher.providers import (
    datadog,
    http_source,
    metrics_server,
    prometheus,
    prometheus_queries,
    provider_spec,
    registry,
    remote_watcher,
    signalfx,
)
from scheduler_plugin.load_watcher.providers.http_source import HostFilter
from scheduler_plugin.load_watcher.providers.prometheus_queries import PRESETS
from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Data, Metric, NodeMetrics, Snapshot, Window
from scheduler_plugin.load_watcher.rest import WatcherApi
from scheduler_plugin.load_watcher.watcher import Watcher
from scheduler_plugin.load_watcher.windows import NoMetrics, Windows

NOW = 1_700_000_000
_HOST_LABEL = prometheus.NodeNames(("instance",))


def _metric(wire: Mapping[str, Any]) -> Metric:
    return Metric(**{**wire, "value": float(wire["value"])})


def _nodes(wire: Mapping[str, Any]) -> dict[str, NodeMetrics]:
    return {name: NodeMetrics([_metric(metric) for metric in metrics]) for name, metrics in wire.items()}


def _metrics_of(nodes: Mapping[str, NodeMetrics]) -> dict[str, Any]:
    return {name: [msgspec.structs.asdict(metric) for metric in node.metrics] for name, node in nodes.items()}


def _windows(inputs: Any) -> Windows:
    kept = Windows(300)
    if inputs.get("started", True):
        for duration, nodes in inputs.get("windows", {}).items():
            window = records.window_ending_at(duration, NOW)
            kept.store(Snapshot(NOW, window, inputs.get("source", ""), Data(_nodes(nodes))))
    return kept


def _page(inputs: Any, kept: Windows) -> Page:
    _method, target = inputs["request"].split(" ")
    url = urlsplit(target)
    routes = WatcherApi(kept, lambda: NOW, lambda: ProbeResult(inputs.get("healthy", True), "")).routes()
    query = {"path": url.path.removeprefix("/watcher/"), **dict(parse_qsl(url.query))}
    return routes.get(url.path, routes["/watcher/"])(query)


def _http(inputs: Any, expected: Any) -> str | None:
    page = _page(inputs, _windows(inputs))
    seen: dict[str, Any] = {"status": page.status, "contentType": page.content_type, "body": page.body.decode()}
    if page.status == HTTPStatus.OK and page.body:
        document = json.loads(page.body)
        seen |= {f"window.{key}": value for key, value in document["window"].items()}
        seen |= {
            "source": document["source"],
            "nodes": sorted(document["data"]["NodeMetricsMap"]),
            "nodeMetrics": {name: node["metrics"] for name, node in document["data"]["NodeMetricsMap"].items()},
        }
        seen["body"] = document
    wrong = {key: seen.get(key) for key, value in expected.items() if seen.get(key) != value}
    return f"expected {expected}, came {wrong}" if wrong else None


def _latest(inputs: Any) -> Any:
    try:
        snapshot = _windows(inputs).latest(inputs["duration"], NOW)
    except NoMetrics:
        started = inputs.get("started", True)
        text = "unable to get any latest metrics" if started else "need to call StartWatching() first"
        return {"error": text, "nodeMetrics": None}
    return {"error": None, "nodeMetrics": _metrics_of(snapshot.data.nodes)}


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


def _encode(inputs: Any, expected: Any) -> str | None:
    """Check that NaN and infinite values are dropped, so that the document stays readable."""
    given = _nodes(inputs["nodeMetrics"])
    usable = analysis.analyse("15m", given, unchanged_seconds={}, shorter={}, expected=()).nodes
    document = json.loads(records.encode(Snapshot(data=Data(dict(usable)))))
    values = [metric["value"] for node in document["data"]["NodeMetricsMap"].values() for metric in node["metrics"]]
    return None if all(math.isfinite(value) for value in values) else f"{document} against {expected}"


def _options(inputs: Any) -> Any:
    (spec,) = watcher_settings.from_environment(inputs["env"])
    return {
        "name": inputs["env"].get("METRICS_PROVIDER_NAME", ""),
        "address": spec.address,
        "authToken": spec.token.get_secret_value(),
        "applicationKey": spec.application_key.get_secret_value(),
        "insecureSkipVerify": spec.insecure_skip_verify,
    }


def _service_client(inputs: Any, expected: Any) -> str | None:
    wants_error = expected.get("error") is not None
    if inputs.get("status", 200) != HTTPStatus.OK:
        return None if wants_error else "a status other than 200 is an error"
    body = inputs["body"] if isinstance(inputs["body"], str) else json.dumps(inputs["body"])
    try:
        nodes = remote_watcher.read(body.encode(), "http://watcher:2020", now=0).nodes
    except ProviderFailed as error:
        return None if wants_error else f"expected {expected}, came {error}"
    if wants_error:
        return f"expected an error, came {sorted(nodes)}"
    return (
        None if sorted(nodes) == sorted(expected.get("nodes", nodes)) else f"expected {expected}, came {sorted(nodes)}"
    )


def _new(kind: str) -> Any:
    def construct(inputs: Any) -> Any:
        if inputs["name"] != kind:
            return {"error": f"metric provider name should be {kind}, found {inputs['name']}"}
        spec = ProviderSpec(
            type=inputs["name"],
            address=inputs["address"],
            token=inputs["authToken"],
            application_key=inputs.get("applicationKey", ""),
        )
        problems = provider_spec.problems(spec)
        if not problems:
            registry.build(spec, registry.ProviderContext(dict, dict, None))
        return {"error": problems[0] if problems else None}

    return construct


def _signalfx_all(inputs: Any) -> Any:
    values = signalfx.values_by_host(inputs["metricDataForBothQueries"], inputs["metadataForBothQueries"])
    return {
        "nodeMetrics": {
            host: [
                msgspec.structs.asdict(Metric(metric, kind, "AVG", "", value))
                for metric, kind in signalfx.METRICS.items()
            ]
            for host, value in values.items()
        }
    }


def _signalfx_urls(inputs: Any) -> Any:
    environment = inputs["env"]
    hosts = HostFilter(environment.get("SIGNALFX_HOST_NAME_SUFFIX", ""), environment.get("SIGNALFX_CLUSTER_NAME", ""))
    window = Window("15m", inputs["window"]["start"], inputs["window"]["end"])
    token = signalfx.headers(inputs["token"])["X-SF-Token"]
    return {
        "urls": [
            f"GET {path}?{urlencode(sorted(parameters.items()))} token={token}"
            for metric in signalfx.METRICS
            for path, parameters in signalfx.requests(metric, hosts, window)
        ]
    }


_SHIPPED_METRICS = datadog.utilizations("cpu.utilization", "memory.utilization")


def _datadog_request(inputs: Any) -> Any:
    environment = inputs["env"]
    hosts = HostFilter(environment.get("DATADOG_HOST_NAME_SUFFIX", ""), environment.get("DATADOG_CLUSTER_NAME", ""))
    window = Window("15m", inputs["window"]["start"], inputs["window"]["end"])
    return {"type": "timeseries_request", **datadog.request(hosts, window, _SHIPPED_METRICS)}


def _datadog_parse(inputs: Any) -> Any:
    try:
        fetched = datadog.nodes_of(inputs["response"], _SHIPPED_METRICS)
    except ProviderFailed as error:
        return {"error": str(error)}
    metrics = _metrics_of(fetched.nodes)
    for each in (metric for node in metrics.values() for metric in node):  # which upstream reads as maxima of a minute
        each |= {"name": each["name"].replace("avg", "max"), "rollup": each["rollup"].replace("avg", "max")}
    return {"error": None, "nodeMetrics": metrics}


def _datadog_parsed(inputs: Any, expected: Any) -> str | None:
    came = _datadog_parse(inputs)
    if expected["error"] is not None and expected["error"] != "No series from timeseries attributes.":
        return None if came["error"] is not None else f"expected {expected}, came {came}"
    wrong = {key for key, value in expected.items() if came.get(key) != value}
    return f"expected {expected}, came {came}" if wrong else None


def _prometheus_query(inputs: Any) -> Any:
    return {"query": prometheus_queries.text(inputs["metric"], inputs["method"], inputs["rollup"])}


def _prometheus_parse(inputs: Any) -> Any:
    query = next(query for query in PRESETS["kube-prometheus"] if query.series == inputs["metric"])
    request = prometheus.Request(query, inputs["method"], inputs["rollup"])
    try:
        found = prometheus.vector(inputs["response"], "")
    except ProviderFailed:
        found = []
    nodes: dict[str, list[Metric]] = {}
    for name, metric in prometheus.records_of(found, request, _HOST_LABEL, {}):
        nodes.setdefault(name, []).append(metric)
    return {"nodeMetrics": _metrics_of({name: NodeMetrics(metrics) for name, metrics in nodes.items()})}


def _metrics_server(inputs: Any) -> Any:
    capacity = {
        name: known_nodes.known_node(msgspec.convert({"status": {"capacity": own}}, type=metrics_server.pods.Node))
        for name, own in inputs["nodeCapacity"].items()
    }
    items = [
        msgspec.convert({"metadata": {"name": name}, "usage": usage}, type=metrics_server.NodeUsage)
        for name, usage in inputs["nodeUsage"].items()
    ]
    known: dict[str, KnownNode] = capacity
    return {"nodeMetrics": _metrics_of(metrics_server.usage_percent(items, known).nodes)}


def _designed_http(inputs: Any) -> Any:
    kept = Windows(300)
    if inputs["haveMetrics"]:
        asked = inputs["request"].partition(" /watcher/")[2] or "node-1"
        kept.store(Snapshot(NOW, records.window_ending_at("15m", NOW), "", Data({asked: NodeMetrics([])})))
    return {"status": _page(inputs, kept).status}


ADAPTERS = {
    "loadwatcher.getLatest": _latest,
    "loadwatcher.route": lambda inputs: {
        "status": _page(inputs, _windows({"windows": {"15m": {"node-1": []}}})).status
    },
    "loadwatcher.cache": _cache,
    "loadwatcher.fetchOrder": lambda _inputs: {"durations": asyncio.run(_two_rounds())},
    "loadwatcher.envOptions": _options,
    "signalfx.New": _new("SignalFx"),
    "signalfx.fetchAllHosts": _signalfx_all,
    "signalfx.getMetricsFromPayloads": lambda inputs: {
        "values": signalfx.values_by_host(inputs["metricData"], inputs["metadata"])
    },
    "signalfx.extractHostName": lambda inputs: {"host": http_source.node_name(inputs["host"])},
    "signalfx.requestURLs": _signalfx_urls,
    "datadog.New": _new("Datadog"),
    "datadog.getHostName": lambda inputs: {"host": datadog.host_name(inputs["tag"])},
    "datadog.queries": _datadog_request,
    "prometheus.query": _prometheus_query,
    "prometheus.parse": _prometheus_parse,
    "metricsserver.parse": _metrics_server,
    "kep61.http": _designed_http,
}

CHECKS = {
    "loadwatcher.http": _http,
    "loadwatcher.encode": _encode,
    "loadwatcher.serviceClient": _service_client,
    "datadog.parseTimeseries": _datadog_parsed,
}


def _windows_empty(case: Mapping[str, Any]) -> bool:
    return case["expected"].get("status") == HTTPStatus.INTERNAL_SERVER_ERROR


def _names_a_node(case: Mapping[str, Any]) -> bool:
    """Return whether the path names a known node: upstream has no such page."""
    windows = case["input"].get("windows", {"15m": {"node-1": []}})
    node = case["input"]["request"].partition(" /watcher/")[2]
    return any(node in nodes for nodes in windows.values())


def _breaks_signalfx(case: Mapping[str, Any]) -> bool:
    """Return whether points have no mean or a host is not text: upstream returns NaN or panics."""
    inputs = case["input"]
    points, series = (
        inputs[key] if key in inputs else inputs[f"{key}ForBothQueries"] for key in ("metricData", "metadata")
    )
    hosts_given = [item["dimensions"].get("host") for item in series.get("results") or ()]
    values = [[point[1:] for point in own or ()] for own in (points.get("data") or {}).values()]
    return (
        any(not isinstance(host, str) for host in hosts_given)
        or any(own and not any(own) for own in values)
        or any(isinstance(value, str | bool | None) for own in values for point in own for value in point)
    )


def _is_of_one_host(case: Mapping[str, Any]) -> bool:
    return case["input"]["host"] not in ("", "all", "*")


def _has_empty_row(case: Mapping[str, Any]) -> bool:
    rows = case["input"]["response"].get("data", {}).get("attributes", {}).get("values", ())
    return any(all(value is None for value in row) for row in rows)


def _names_no_node(case: Mapping[str, Any]) -> bool:
    found = case["input"]["response"].get("data", {}).get("result", ())
    named = [item["metric"].get("instance", "") for item in found if isinstance(item, Mapping)]
    return any(not name or (":" in name and name.rpartition(":")[2].isdigit()) for name in named)


def _has_no_number(case: Mapping[str, Any]) -> bool:
    found = case["input"]["response"].get("data", {}).get("result", ())
    return any(not math.isfinite(float(item["value"][1])) for item in found if isinstance(item, Mapping))


def _has_no_capacity(case: Mapping[str, Any]) -> bool:
    wholes = case["input"]["nodeCapacity"]
    amounts = [pods.units(whole) for name, whole in wholes.items() if name in case["input"]["nodeUsage"]]
    return any(not amount.get("cpu") or not amount.get("memory") for amount in amounts)


def _lacks_usage(case: Mapping[str, Any]) -> bool:
    return any(not {"cpu", "memory"} <= usage.keys() for usage in case["input"]["nodeUsage"].values())


DIFFERENT_ON_PURPOSE = (
    ("loadwatcher.http", _names_a_node, "KEP-61 has /watcher/{host}, upstream does not"),
    ("loadwatcher.route", _names_a_node, "KEP-61 has /watcher/{host}, upstream does not"),
    ("prometheus.query", _is_of_one_host, "one query reads all nodes; there is none for a single host"),
    ("datadog.queries", lambda _case: True, "all hosts, the means and not the maxima of a minute, numbered queries"),
    ("signalfx.requestURLs", lambda _case: True, "the documented names of parameters beside upstream's"),
    (
        "signalfx.getMetricsFromPayloads",
        _breaks_signalfx,
        "unreadable values are skipped; upstream gives NaN or a panic",
    ),
    ("signalfx.fetchAllHosts", _breaks_signalfx, "unreadable values are skipped; upstream gives NaN or a panic"),
    ("datadog.parseTimeseries", _has_empty_row, "a series without points is reported and skipped, not NaN"),
    ("prometheus.parse", _names_no_node, "a series without a node name is skipped, and a port is not part of the name"),
    ("prometheus.parse", _has_no_number, "NaN and infinite values are dropped before they are stored"),
    ("metricsserver.parse", _has_no_capacity, "without capacity there is no percentage"),
    ("metricsserver.parse", _lacks_usage, "an absent value is not 0"),
    ("loadwatcher.http", _windows_empty, "without data the status is 404 with a reason, not 500"),
    ("loadwatcher.route", _windows_empty, "without data the status is 404 with a reason, not 500"),
    (
        "loadwatcher.getLatest",
        lambda case: case["input"]["duration"] == "15m" and set(case["input"]["windows"]) == {"5m"},
        "a request for 15 minutes falls back to the 5 minute window",
    ),
    (
        "prometheus.fetchAll",
        lambda _case: True,
        "a failed query affects only its own part",
    ),
)
