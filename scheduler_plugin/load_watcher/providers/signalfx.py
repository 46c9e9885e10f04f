"""SignalFx (Splunk Observability) HTTP API: mean CPU and memory utilization of a window, no deviation.

No test server exists: the tests use recorded responses.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from scheduler_plugin.load_watcher.providers import http_source, provider_spec
from scheduler_plugin.load_watcher.providers.http_source import HostFilter, HttpSource, Reach
from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.records import Metric, MetricType, NodeMetrics, Statistic, Window

DEFAULT_ADDRESS: Final = "https://api.signalfx.com"
TIMEOUT_SECONDS: Final = 55.0
METRICS: Final = {'sf_metric:"cpu.utilization"': MetricType.CPU, 'sf_metric:"memory.utilization"': MetricType.MEMORY}
_RESOLUTION_MILLIS: Final = "60000"
_MOST_SERIES: Final = "10000"


class SignalFxProvider:
    """Provider that reads two metrics: the points of their series, and the host of each series."""

    name = provider_spec.SIGNALFX
    has_deviation = False

    def __init__(self, reach: Reach, hosts: HostFilter) -> None:
        self._source = HttpSource(reach)
        self._hosts = hosts

    async def check(self) -> Sequence[str]:
        """Return a problem if the address does not return 200."""
        return () if await self.is_healthy() else ("SignalFx did not return 200",)

    async def fetch(self, window: Window) -> Fetched:
        """Return both metrics; a failed one is reported and skipped. Raises ProviderFailed if both fail."""
        by_node: dict[str, list[Metric]] = {}
        problems = []
        for metric, kind in METRICS.items():
            try:
                values = await self._values(metric, window)
            except ProviderFailed as error:
                problems.append(str(error))
                continue
            for host, value in values.items():
                by_node.setdefault(host, []).append(Metric(metric, kind, Statistic.AVG, "", value))
        if len(problems) == len(METRICS):
            raise ProviderFailed(problems[0])
        return Fetched({name: NodeMetrics(metrics) for name, metrics in by_node.items()}, problems)

    async def is_healthy(self) -> bool:
        """Return whether the configured address returns 200."""
        return await self._source.is_ok("HEAD", "")

    async def close(self) -> None:
        """Close the connection."""
        await self._source.close()

    async def _values(self, metric: str, window: Window) -> dict[str, float]:
        responses = []
        for path, parameters in requests(metric, self._hosts, window):
            response = await self._source.send("GET", path, params=parameters)
            responses.append(self._source.decode(response, path))
        points, series = responses
        return values_by_host(points, series)


def headers(token: str) -> dict[str, str]:
    """Return the headers of every request."""
    return {"X-SF-Token": token, "Content-Type": "application/json"}


def requests(metric: str, hosts: HostFilter, window: Window) -> Sequence[tuple[str, Mapping[str, str]]]:
    """Return path and parameters (sorted by name) of the points and of the series' metadata."""
    query = f"host:*{hosts.name_suffix} AND cluster:{hosts.cluster_name} AND {metric}"
    points = {
        "endMs": str(window.end * 1000),
        "query": query,
        "resolution": _RESOLUTION_MILLIS,
        "startMs": str(window.start * 1000),
    }
    return [("/v1/timeserieswindow", points), ("/v2/metrictimeseries", {"limit": _MOST_SERIES, "query": query})]


def values_by_host(points: Any, series: Any) -> dict[str, float]:
    """Return the mean of each series by its host; a series without points or host is skipped. Raises ProviderFailed."""
    try:
        host_of = {item["id"]: item["dimensions"].get("host") for item in series["results"]}
        means = {}
        for identity, own in (points["data"] or {}).items():
            host, values = host_of.get(identity), _values(own)
            if isinstance(host, str) and http_source.node_name(host) and values:
                means[http_source.node_name(host)] = statistics.fmean(values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ProviderFailed(f"the response is not a SignalFx response ({error!r})") from error
    return means


def _values(points: Sequence[Any]) -> list[float]:
    """Return the second element of each point that has a number there."""
    return [
        float(point[1])
        for point in points or ()
        if isinstance(point, list) and len(point) > 1 and isinstance(point[1], int | float)
    ]
