"""Datadog's HTTP API: mean CPU and memory utilization of a window, no deviation.

No test server exists: the tests use recorded responses.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from component_base.http_client import Reach
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider, provider_spec
from scheduler_plugin.load_watcher.providers.provider import (
    Fetched,
    HostFilter,
    HttpProvider,
    ProviderFailed,
    ReadKnownNodes,
)
from scheduler_plugin.load_watcher.records import Metric, MetricType, NodeMetrics, Statistic, Window

DEFAULT_ADDRESS: Final = "https://api.datadoghq.com"
TIMEOUT_SECONDS: Final = 55.0
_ROLLUP: Final = "rollup(avg, 60)"
_INTERVAL_MILLIS: Final = 60_000
_NO_WINDOW: Final = Window()


@dataclass(frozen=True, slots=True)
class UtilizationMetric:
    """Percentage of one resource: `offset` plus the mean of each metric times its factor."""

    name: str
    type: MetricType
    factors: Mapping[str, float]
    """Metric -> factor."""
    offset: float = 0.0


_AGENT_CPU: Final = UtilizationMetric(
    "avg:system.cpu.user + avg:system.cpu.system", MetricType.CPU, {"system.cpu.user": 1.0, "system.cpu.system": 1.0}
)
_AGENT_MEMORY: Final = UtilizationMetric(
    "100 - 100 * avg:system.mem.pct_usable", MetricType.MEMORY, {"system.mem.pct_usable": -100.0}, 100.0
)
"""Metrics of Datadog's agent: CPU in percent of all cores, without waiting and stolen time; memory as a fraction."""


def utilizations(cpu_metric: str = "", memory_metric: str = "") -> Sequence[UtilizationMetric]:
    """Return what to read for both resources: a metric in percent if one is named, else those of Datadog's agent."""
    cpu = UtilizationMetric(f"avg:{cpu_metric}", MetricType.CPU, {cpu_metric: 1.0}) if cpu_metric else _AGENT_CPU
    if not memory_metric:
        return cpu, _AGENT_MEMORY
    return cpu, UtilizationMetric(f"avg:{memory_metric}", MetricType.MEMORY, {memory_metric: 1.0})


class DatadogProvider(HttpProvider):
    """Provider that reads all metrics in one request."""

    name = provider_spec.DATADOG
    has_deviation = False
    health_path = "/api/v1/validate"
    """Accepts the API key, or does not."""

    def __init__(
        self, reach: Reach, hosts: HostFilter, utilizations: Sequence[UtilizationMetric], nodes: ReadKnownNodes = dict
    ) -> None:
        super().__init__(reach)
        self._hosts, self._nodes = hosts, nodes
        self._wanted = utilizations

    async def fetch(self, window: Window) -> Fetched:
        """Return both resources. Raises ProviderFailed."""
        attributes = request(self._hosts, window, self._wanted)
        body = {"data": {"type": "timeseries_request", "attributes": attributes}}
        response = await self._json("POST", "/api/v2/query/timeseries", json=body)
        return read_nodes(response, self._wanted, window, self._nodes())


def headers(api_key: str, application_key: str) -> dict[str, str]:
    """Return the headers of every request."""
    return {"DD-API-KEY": api_key, "DD-APPLICATION-KEY": application_key}


def request(hosts: HostFilter, window: Window, utilizations: Sequence[UtilizationMetric]) -> dict[str, Any]:
    """Return the attributes of a request for a window, times in milliseconds."""
    cluster = f", cluster_name:{hosts.cluster_name}" if hosts.cluster_name else ""
    selected = f"host:*{hosts.name_suffix}{cluster}"
    return {
        "from": window.start * 1000,
        "to": window.end * 1000,
        "interval": _INTERVAL_MILLIS,
        "queries": [
            {
                "name": f"query{index}",
                "data_source": "metrics",
                "query": f"avg:{metric}{{{selected}}} by {{host}}.{_ROLLUP}",
            }
            for index, metric in enumerate(_metrics(utilizations))
        ],
    }


def read_nodes(
    response: Any,
    utilizations: Sequence[UtilizationMetric],
    window: Window = _NO_WINDOW,
    nodes: Collection[str] = (),
) -> Fetched:
    """Return the utilization of each host, from the mean of each series, up to its newest point.

    A series without points or host is skipped and reported, and a resource without all its metrics is absent. Raises
    ProviderFailed.
    """
    try:
        problems = [f"Datadog returned an error: {response['errors']}"] if response.get("errors") else []
        attributes = response["data"]["attributes"]
        series, values = attributes["series"], attributes["values"]
        if not series:
            raise ProviderFailed(problems[0] if problems else "No series from timeseries attributes.")
        if len(series) != len(values):
            raise ProviderFailed(f"Datadog returned {len(series)} series and {len(values)} rows of values")
        means: dict[str, dict[str, float]] = {}
        ends: dict[str, float] = {}
        for one, row in zip(series, values, strict=True):
            host = next((host_name(tag, nodes) for tag in one["group_tags"] if tag.startswith("host:")), "")
            metric = dict(enumerate(_metrics(utilizations)))[one["query_index"]]
            points = [float(value) for value in row if value is not None]
            millis = [at for at, value in zip(attributes.get("times", ()), row, strict=False) if value is not None]
            if not host or not points:
                problems.append(f"a series of {metric} has no {'points' if host else 'host'}")
                continue
            means.setdefault(host, {})[metric] = statistics.fmean(points)
            ends[host] = min(ends.get(host, math.inf), max(millis, default=0) / 1000.0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProviderFailed(f"the response is not a Datadog time series response ({error!r})") from error
    measured = {
        host: NodeMetrics(_records(host_means, utilizations), window=records.up_to(window, ends[host]))
        for host, host_means in means.items()
    }
    return Fetched({host: node for host, node in measured.items() if node.metrics}, problems)


def _metrics(utilizations: Sequence[UtilizationMetric]) -> list[str]:
    """Return the metric of each query; the response numbers its series in this order."""
    return [metric for one in utilizations for metric in one.factors]


def _records(means: Mapping[str, float], utilizations: Sequence[UtilizationMetric]) -> list[Metric]:
    return [
        Metric(
            one.name,
            one.type,
            Statistic.AVG,
            _ROLLUP,
            one.offset + sum(factor * means[metric] for metric, factor in one.factors.items()),
        )
        for one in utilizations
        if one.factors.keys() <= means.keys()
    ]


def host_name(tag: str, nodes: Collection[str] = ()) -> str:
    """Return the node in a tag `host:NAME`; a tag of another kind unchanged."""
    return provider.node_name(tag.removeprefix("host:"), nodes) if tag.startswith("host:") else tag
