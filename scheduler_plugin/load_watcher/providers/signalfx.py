"""SignalFx (Splunk Observability) by its HTTP API: mean CPU and memory utilisation of a window, no deviation.

There is no server to be had for tests: shapes are recorded ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from scheduler_plugin.load_watcher.providers import hosts, provider_spec
from scheduler_plugin.load_watcher.providers.hosts import Hosts
from scheduler_plugin.load_watcher.providers.http_source import HttpSource, Reach
from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.records import Metric, MetricType, NodeMetrics, Operator, Window

DEFAULT_ADDRESS: Final = "https://api.signalfx.com"
TIMEOUT_SECONDS: Final = 55.0
METRICS: Final = {'sf_metric:"cpu.utilization"': MetricType.CPU, 'sf_metric:"memory.utilization"': MetricType.MEMORY}
_RESOLUTION_MILLIS: Final = "60000"
_MOST_SERIES: Final = "10000"


class SignalFxProvider:
    """Asks for two metrics: the points of their series, and which host each series is of."""

    name = provider_spec.SIGNALFX

    def __init__(self, reach: Reach, ours: Hosts) -> None:
        self._source = HttpSource(reach)
        self._ours = ours

    async def check(self) -> Sequence[str]:
        """Tell when it does not answer."""
        return () if await self.is_healthy() else ("SignalFx does not answer with 200",)

    async def fetch(self, window: Window) -> Fetched:
        """Both metrics; one that fails costs its own part. Raises ProviderFailed when both do."""
        by_node: dict[str, list[Metric]] = {}
        problems = []
        for metric, kind in METRICS.items():
            try:
                values = await self._values(metric, window)
            except ProviderFailed as error:
                problems.append(str(error))
                continue
            for host, value in values.items():
                by_node.setdefault(host, []).append(Metric(metric, kind, Operator.AVG, "", value))
        if len(problems) == len(METRICS):
            raise ProviderFailed(problems[0])
        return Fetched({name: NodeMetrics(metrics) for name, metrics in by_node.items()}, problems)

    async def is_healthy(self) -> bool:
        """Whether the configured address answers."""
        return await self._source.answers("HEAD", "")

    async def close(self) -> None:
        """End the connection."""
        await self._source.close()

    async def _values(self, metric: str, window: Window) -> dict[str, float]:
        answers = []
        for path, parameters in requests(metric, self._ours, window):
            response = await self._source.send("GET", path, params=parameters)
            answers.append(self._source.decode(response, path))
        points, series = answers
        return values_by_host(points, series)


def headers(token: str) -> dict[str, str]:
    """What every request carries."""
    return {"X-SF-Token": token, "Content-Type": "application/json"}


def requests(metric: str, ours: Hosts, window: Window) -> Sequence[tuple[str, Mapping[str, str]]]:
    """Path and parameters (sorted by name) of the points and of the series' metadata."""
    query = f"host:*{ours.name_suffix} AND cluster:{ours.cluster_name} AND {metric}"
    points = {
        "endMs": str(window.end * 1000),
        "query": query,
        "resolution": _RESOLUTION_MILLIS,
        "startMs": str(window.start * 1000),
    }
    return [("/v1/timeserieswindow", points), ("/v2/metrictimeseries", {"limit": _MOST_SERIES, "query": query})]


def values_by_host(points: Any, series: Any) -> dict[str, float]:
    """Mean of each series' points by the host it is of; a series without either is left out. Raises ProviderFailed."""
    try:
        host_of = {item["id"]: item["dimensions"].get("host") for item in series["results"]}
        means = {}
        for identity, own in (points["data"] or {}).items():
            host, values = host_of.get(identity), _values(own)
            if isinstance(host, str) and hosts.node_name(host) and values:
                means[hosts.node_name(host)] = statistics.fmean(values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ProviderFailed(f"the answer is not SignalFx's ({error!r})") from error
    return means


def _values(points: Sequence[Any]) -> list[float]:
    """Second element of each point that has a number there."""
    return [
        float(point[1])
        for point in points or ()
        if isinstance(point, list) and len(point) > 1 and isinstance(point[1], int | float)
    ]
