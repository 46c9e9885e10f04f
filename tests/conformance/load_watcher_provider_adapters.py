"""Map the cases about the providers of the load watcher to scheduler_plugin/load_watcher/providers."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import msgspec
import pydantic

from api_types.kubernetes import pods
from component_base.http_client import HttpClient, Reach, Reply, RequestFailed
from component_base.http_endpoint import Page
from component_base.prometheus import PrometheusClient
from scheduler_plugin.load_watcher.providers import (
    datadog,
    metrics_server,
    prometheus,
    provider,
    provider_spec,
    registry,
    signalfx,
)
from scheduler_plugin.load_watcher.providers.provider import HostFilter, KnownNode, Provider, ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import PRESETS, ProviderSpec
from scheduler_plugin.load_watcher.records import Metric, NodeMetrics, Window
from tests.conformance.load_watcher_adapters import metrics_of, served

_HOST_LABEL = prometheus.NodeNames(("instance",))


def _new(inputs: Any) -> Any:
    """Build the named provider as the load watcher does."""
    spec = ProviderSpec(
        type=inputs["name"],
        address=inputs.get("address") or "",
        token=inputs.get("authToken") or "",
        application_key=inputs.get("applicationKey") or "",
        insecure_skip_verify=inputs.get("insecureSkipVerify"),
    )
    problems = provider_spec.problems(spec)
    if problems:
        return {"error": problems[0]}
    built = registry.build(spec, registry.ProviderContext(dict, dict, None))
    return {"error": None, "name": built.name}


def _signalfx_means(points: Any, series: Any) -> dict[str, float]:
    by_host = signalfx.points_by_host(points, series)
    return {host: statistics.fmean(value for _at, value in samples) for host, samples in by_host.items()}


def _signalfx_all(inputs: Any) -> Any:
    values = _signalfx_means(inputs["metricDataForBothQueries"], inputs["metadataForBothQueries"])
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
        fetched = datadog.read_nodes(inputs["response"], _SHIPPED_METRICS)
    except ProviderFailed as error:
        return {"error": str(error)}
    metrics = metrics_of(fetched.nodes)
    for each in (metric for node in metrics.values() for metric in node):  # which upstream reads as maxima of a minute
        each |= {"name": each["name"].replace("avg", "max"), "rollup": each["rollup"].replace("avg", "max")}
    return {"error": None, "nodeMetrics": metrics}


def _signalfx_values(inputs: Any) -> Any:
    try:
        return {"error": None, "values": _signalfx_means(inputs["metricData"], inputs["metadata"])}
    except ProviderFailed as error:
        return {"error": str(error), "values": {}}


def _datadog_health(inputs: Any) -> Any:
    """Ask a local server, which has the status of the case on every page that the provider asks for its health."""
    page = Page("application/json", b"{}", HTTPStatus(inputs["responseStatus"]))
    with served({"/api/v1/validate": lambda _query: page}) as endpoint:
        spec = ProviderSpec(
            type=provider_spec.DATADOG,
            address=f"http://127.0.0.1:{endpoint.port}",
            token=pydantic.SecretStr("token"),
            application_key=pydantic.SecretStr("key"),
        )
        return {"healthy": asyncio.run(_is_healthy(registry.build(spec, registry.ProviderContext(dict, dict, None))))}


async def _is_healthy(provider: Provider) -> bool:
    try:
        return await provider.is_healthy()
    finally:
        await provider.close()


def _prometheus_query(inputs: Any) -> Any:
    return {"query": provider_spec.query_text(inputs["metric"], inputs["method"], inputs["rollup"])}


class _Answering(HttpClient):
    """A server with one response, without the network."""

    def __init__(self, response: Any) -> None:
        super().__init__(Reach("http://prometheus", dict, 5.0))
        self.response = Reply(200, msgspec.json.encode(response))

    async def send(self, *_words: Any, **_request: Any) -> Reply:
        return self.response


def _prometheus_parse(inputs: Any) -> Any:
    query = next(query for query in PRESETS["kube-prometheus"] if query.series == inputs["metric"])
    try:
        found = asyncio.run(PrometheusClient(_Answering(inputs["response"])).query(""))
    except RequestFailed:
        found = []
    nodes: dict[str, list[Metric]] = {}
    for name, metric in prometheus.node_records(
        found, query, inputs["method"], inputs["rollup"], node_names=_HOST_LABEL, nodes={}
    ):
        nodes.setdefault(name, []).append(metric)
    return {"nodeMetrics": metrics_of({name: NodeMetrics(metrics) for name, metrics in nodes.items()})}


def _metrics_server(inputs: Any) -> Any:
    capacity = {
        name: provider.known_node(msgspec.convert({"status": {"capacity": own}}, type=metrics_server.pods.Node))
        for name, own in inputs["nodeCapacity"].items()
    }
    items = [
        msgspec.convert({"metadata": {"name": name}, "usage": usage}, type=metrics_server.MeasuredUsage)
        for name, usage in inputs["nodeUsage"].items()
    ]
    known: dict[str, KnownNode] = capacity
    return {"nodeMetrics": metrics_of(metrics_server.usage_percent(items, known).nodes)}


ADAPTERS = {
    "signalfx.New": _new,
    "signalfx.fetchAllHosts": _signalfx_all,
    "signalfx.getMetricsFromPayloads": _signalfx_values,
    "signalfx.extractHostName": lambda inputs: {"host": provider.node_name(inputs["host"])},
    "signalfx.requestURLs": _signalfx_urls,
    "datadog.New": _new,
    "datadog.getHostName": lambda inputs: {"host": datadog.host_name(inputs["tag"])},
    "datadog.queries": _datadog_request,
    "datadog.health": _datadog_health,
    "datadog.parseTimeseries": _datadog_parse,
    "prometheus.query": _prometheus_query,
    "prometheus.parse": _prometheus_parse,
    "metricsserver.parse": _metrics_server,
}


def _breaks_signalfx(case: Mapping[str, Any]) -> bool:
    """Return whether points have no mean or a host is not text: upstream returns NaN or panics."""
    inputs = case["input"]
    points, series = (inputs.get(key) or inputs.get(f"{key}ForBothQueries") or {} for key in ("metricData", "metadata"))
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


def _names_another_than(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda case: case["input"]["name"] in provider_spec.NEEDS.keys() - {name}


_BY_NAME = "decision 17: a provider is built by its name, so that it never gets another name"
DIFFERENT_ON_PURPOSE = (
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
    ("signalfx.New", _names_another_than(provider_spec.SIGNALFX), _BY_NAME),
    ("datadog.New", _names_another_than(provider_spec.DATADOG), _BY_NAME),
    ("prometheus.fetchAll", lambda _case: True, "a failed query affects only its own part"),
)
