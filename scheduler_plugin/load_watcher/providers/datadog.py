"""Datadog by its HTTP API: mean of the maxima of each minute, CPU and memory, no deviation.

There is no server to be had for tests: shapes are recorded ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

from scheduler_plugin.load_watcher.providers import hosts, provider_spec
from scheduler_plugin.load_watcher.providers.hosts import Hosts
from scheduler_plugin.load_watcher.providers.http_source import HttpSource, Reach
from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.records import Metric, MetricType, NodeMetrics, Operator, Window

DEFAULT_ADDRESS: Final = "https://api.datadoghq.com"
TIMEOUT_SECONDS: Final = 55.0
_ROLLUP: Final = "rollup(max, 60)"
_INTERVAL_MILLIS: Final = 60_000
_METRICS: Final = (
    ("cpuqueryname", "max:cpu.utilization", MetricType.CPU),
    ("memoryqueryname", "max:memory.utilization", MetricType.MEMORY),
)
"""Name of the query, what it asks for, and what it is; in this order the answer numbers them."""


class DatadogProvider:
    """Asks for both metrics in one request."""

    name = provider_spec.DATADOG

    def __init__(self, reach: Reach, ours: Hosts) -> None:
        self._source = HttpSource(reach)
        self._ours = ours

    async def check(self) -> Sequence[str]:
        """Tell when it does not answer."""
        return () if await self.is_healthy() else ("Datadog does not answer with 200",)

    async def fetch(self, window: Window) -> Fetched:
        """Both metrics. Raises ProviderFailed."""
        body = {"data": {"type": "timeseries_request", "attributes": request(self._ours, window)}}
        path = "/api/v2/query/timeseries"
        answer = self._source.decode(await self._source.send("POST", path, json=body), path)
        return nodes_of(answer)

    async def is_healthy(self) -> bool:
        """Whether the configured address answers."""
        return await self._source.answers("GET", "")

    async def close(self) -> None:
        """End the connection."""
        await self._source.close()


def headers(api_key: str, application_key: str) -> dict[str, str]:
    """What every request carries."""
    return {"DD-API-KEY": api_key, "DD-APPLICATION-KEY": application_key}


def request(ours: Hosts, window: Window, host: str = "*") -> dict[str, Any]:
    """Attributes of a request for a window, times in milliseconds."""
    selected = f"host:{host}{ours.name_suffix}, cluster_name:{ours.cluster_name}"
    return {
        "from": window.start * 1000,
        "to": window.end * 1000,
        "interval": _INTERVAL_MILLIS,
        "queries": [
            {"name": name, "data_source": "metrics", "query": f"{metric}{{{selected}}} by {{host}}.{_ROLLUP}"}
            for name, metric, _kind in _METRICS
        ],
    }


def nodes_of(answer: Any) -> Fetched:
    """Mean of each series; one without points is told and left out. Raises ProviderFailed."""
    try:
        attributes = answer["data"]["attributes"]
        series, values = attributes["series"], attributes["values"]
        if not series:
            raise ProviderFailed("No series from timeseries attributes.")
        if len(series) != len(values):
            raise ProviderFailed(f"Datadog answered {len(series)} series and {len(values)} rows of values")
        by_node: dict[str, list[Metric]] = {}
        problems = []
        for one, row in zip(series, values, strict=True):
            host = next((host_name(tag) for tag in one["group_tags"] if tag.startswith("host:")), "")
            _name, metric, kind = _METRICS[0 if one["query_index"] == 0 else 1]
            points = [float(value) for value in row if value is not None]
            if not host or not points:
                problems.append(f"a series of {metric} has no {'points' if host else 'host'}")
                continue
            by_node.setdefault(host, []).append(Metric(metric, kind, Operator.AVG, _ROLLUP, statistics.fmean(points)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProviderFailed(f"the answer is not Datadog's ({error!r})") from error
    return Fetched({name: NodeMetrics(metrics) for name, metrics in by_node.items()}, problems)


def host_name(tag: str) -> str:
    """Name in a tag `host:NAME`, up to the first dot; a tag of another kind is given back as it is."""
    return hosts.node_name(tag.removeprefix("host:")) if tag.startswith("host:") else tag
