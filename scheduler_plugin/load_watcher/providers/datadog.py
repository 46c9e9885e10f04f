"""Datadog's HTTP API: mean of the one-minute maxima of CPU and memory, no deviation.

No test server exists: the tests use recorded responses.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

from scheduler_plugin.load_watcher.providers import http_source, provider_spec
from scheduler_plugin.load_watcher.providers.http_source import HostFilter, HttpSource, Reach
from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.records import Metric, MetricType, NodeMetrics, Statistic, Window

DEFAULT_ADDRESS: Final = "https://api.datadoghq.com"
TIMEOUT_SECONDS: Final = 55.0
_ROLLUP: Final = "rollup(max, 60)"
_INTERVAL_MILLIS: Final = 60_000
_METRICS: Final = (
    ("cpuqueryname", "max:cpu.utilization", MetricType.CPU),
    ("memoryqueryname", "max:memory.utilization", MetricType.MEMORY),
)
"""Name, metric and resource of each query; the response numbers its series in this order."""


class DatadogProvider:
    """Provider that reads both metrics in one request."""

    name = provider_spec.DATADOG
    has_deviation = False

    def __init__(self, reach: Reach, hosts: HostFilter) -> None:
        self._source = HttpSource(reach)
        self._hosts = hosts

    async def check(self) -> Sequence[str]:
        """Return a problem if the address does not return 200."""
        return () if await self.is_healthy() else ("Datadog did not return 200",)

    async def fetch(self, window: Window) -> Fetched:
        """Return both metrics. Raises ProviderFailed."""
        body = {"data": {"type": "timeseries_request", "attributes": request(self._hosts, window)}}
        path = "/api/v2/query/timeseries"
        response = self._source.decode(await self._source.send("POST", path, json=body), path)
        return nodes_of(response)

    async def is_healthy(self) -> bool:
        """Return whether the configured address returns 200."""
        return await self._source.is_ok("GET", "")

    async def close(self) -> None:
        """Close the connection."""
        await self._source.close()


def headers(api_key: str, application_key: str) -> dict[str, str]:
    """Return the headers of every request."""
    return {"DD-API-KEY": api_key, "DD-APPLICATION-KEY": application_key}


def request(hosts: HostFilter, window: Window) -> dict[str, Any]:
    """Return the attributes of a request for a window, times in milliseconds."""
    selected = f"host:*{hosts.name_suffix}, cluster_name:{hosts.cluster_name}"
    return {
        "from": window.start * 1000,
        "to": window.end * 1000,
        "interval": _INTERVAL_MILLIS,
        "queries": [
            {"name": name, "data_source": "metrics", "query": f"{metric}{{{selected}}} by {{host}}.{_ROLLUP}"}
            for name, metric, _kind in _METRICS
        ],
    }


def nodes_of(response: Any) -> Fetched:
    """Return the mean of each series; a series without points is skipped and reported. Raises ProviderFailed."""
    try:
        attributes = response["data"]["attributes"]
        series, values = attributes["series"], attributes["values"]
        if not series:
            raise ProviderFailed("No series from timeseries attributes.")
        if len(series) != len(values):
            raise ProviderFailed(f"Datadog returned {len(series)} series and {len(values)} rows of values")
        by_node: dict[str, list[Metric]] = {}
        problems = []
        for one, row in zip(series, values, strict=True):
            host = next((host_name(tag) for tag in one["group_tags"] if tag.startswith("host:")), "")
            _name, metric, kind = _METRICS[0 if one["query_index"] == 0 else 1]
            points = [float(value) for value in row if value is not None]
            if not host or not points:
                problems.append(f"a series of {metric} has no {'points' if host else 'host'}")
                continue
            by_node.setdefault(host, []).append(Metric(metric, kind, Statistic.AVG, _ROLLUP, statistics.fmean(points)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProviderFailed(f"the response is not a Datadog time series response ({error!r})") from error
    return Fetched({name: NodeMetrics(metrics) for name, metrics in by_node.items()}, problems)


def host_name(tag: str) -> str:
    """Return the name in a tag `host:NAME`, up to the first dot; a tag of another kind unchanged."""
    return http_source.node_name(tag.removeprefix("host:")) if tag.startswith("host:") else tag
