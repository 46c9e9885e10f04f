"""SignalFx (Splunk Observability) HTTP API: mean CPU and memory utilization of a window, no deviation.

No test server exists: the tests use recorded responses.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
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

DEFAULT_ADDRESS: Final = "https://api.signalfx.com"
TIMEOUT_SECONDS: Final = 55.0
METRICS: Final = {'sf_metric:"cpu.utilization"': MetricType.CPU, 'sf_metric:"memory.utilization"': MetricType.MEMORY}
_RESOLUTION_MILLIS: Final = "60000"
_MOST_SERIES: Final = 10_000
_SERIES: Final = "/v2/metrictimeseries"


class SignalFxProvider(HttpProvider):
    """Provider that reads two metrics: the points of their series, and the host of each series."""

    name = provider_spec.SIGNALFX
    has_deviation = False

    def __init__(self, reach: Reach, hosts: HostFilter, nodes: ReadKnownNodes = dict) -> None:
        super().__init__(reach)
        self._hosts, self._nodes = hosts, nodes

    async def check(self) -> Sequence[str]:
        """Return a problem for each metric that has no series of the selected hosts."""
        return [problem for metric in METRICS for problem in await self._check(metric)]

    async def fetch(self, window: Window) -> Fetched:
        """Return both metrics; a failed one is reported and skipped. Raises ProviderFailed if both fail."""
        by_node: dict[str, list[Metric]] = {}
        ends: dict[str, float] = {}
        problems: list[str] = []
        failed = 0
        for metric, kind in METRICS.items():
            try:
                points, series = [
                    await self._json("GET", path, params=parameters)
                    for path, parameters in requests(metric, self._hosts, window)
                ]
                values = points_by_host(points, series, self._nodes())
            except ProviderFailed as error:
                problems.append(str(error))
                failed += 1
                continue
            problems += partial_problems(metric, points, series)
            for host, of_host in values.items():
                mean = statistics.fmean(value for _at, value in of_host)
                by_node.setdefault(host, []).append(Metric(metric, kind, Statistic.AVG, "", mean))
                ends[host] = min(ends.get(host, math.inf), max(at for at, _value in of_host) / 1000.0)
        if failed == len(METRICS):
            raise ProviderFailed(problems[0])
        nodes = {
            name: NodeMetrics(metrics, window=records.up_to(window, ends[name])) for name, metrics in by_node.items()
        }
        return Fetched(nodes, problems)

    async def is_healthy(self) -> bool:
        """Return whether the token may read the CPU metric's series."""
        try:
            await self._one_series(next(iter(METRICS)))
        except ProviderFailed:
            return False
        return True

    async def _check(self, metric: str) -> Sequence[str]:
        try:
            series = await self._one_series(metric)
        except ProviderFailed as error:
            return (str(error),)
        if isinstance(series, dict) and series.get("results"):
            return ()
        return (f"SignalFx has no series for {query(metric, self._hosts)}; check hostNameSuffix and clusterName",)

    async def _one_series(self, metric: str) -> Any:
        parameters = {"limit": "1", "query": query(metric, self._hosts)}
        return await self._json("GET", _SERIES, params=parameters)


def headers(token: str) -> dict[str, str]:
    """Return the headers of every request."""
    return {"X-SF-Token": token, "Content-Type": "application/json"}


def query(metric: str, hosts: HostFilter) -> str:
    """Return the query of a metric's series; without a cluster name of any cluster."""
    name = hosts.cluster_name if hosts.cluster_name.isalnum() else f'"{hosts.cluster_name}"'
    cluster = [f"cluster:{name}"] if hosts.cluster_name else []
    return " AND ".join([f"host:*{hosts.name_suffix}", *cluster, metric])


def requests(metric: str, hosts: HostFilter, window: Window) -> Sequence[tuple[str, Mapping[str, str]]]:
    """Return path and parameters of the points and of the series' metadata."""
    selected = query(metric, hosts)
    start, end = str(window.start * 1000), str(window.end * 1000)
    # The documentation has startMs, startMS and endMS; clients in use send startMs and endMs.
    times = {"startMs": start, "startMS": start, "endMs": end, "endMS": end}
    points = {"query": selected, "resolution": _RESOLUTION_MILLIS, **times}
    return [("/v1/timeserieswindow", points), (_SERIES, {"limit": str(_MOST_SERIES), "query": selected})]


def partial_problems(metric: str, points: Mapping[str, Any], series: Mapping[str, Any]) -> Sequence[str]:
    """Return one line for each reason why both responses may lack hosts."""
    problems = []
    if points.get("errors"):
        problems.append(f"SignalFx returned errors for {metric}: {points['errors']}")
    count, read = series.get("count"), len(series["results"])
    if series.get("partialCount") is True or (isinstance(count, int) and count > read):
        problems.append(
            f"SignalFx has {count} series of {metric} and returned {read}, want {_MOST_SERIES} at most: "
            "select fewer hosts by clusterName or hostNameSuffix"
        )
    return problems


def points_by_host(points: Any, series: Any, nodes: Collection[str] = ()) -> dict[str, Sequence[tuple[float, float]]]:
    """Return times in milliseconds and values of each series by its host.

    A series without points or host is skipped. Raises ProviderFailed.
    """
    try:
        host_of = {item["id"]: item["dimensions"].get("host") for item in series["results"]}
        if points.get("errors") and not points.get("data"):
            raise ProviderFailed(f"SignalFx returned errors and no data: {points['errors']}")
        by_host: dict[str, Sequence[tuple[float, float]]] = {}
        for identity, samples in (points["data"] or {}).items():
            host, values = host_of.get(identity), _values(samples)
            if isinstance(host, str) and provider.node_name(host) and values:
                by_host[provider.node_name(host, nodes)] = values
    except (KeyError, TypeError, AttributeError) as error:
        raise ProviderFailed(f"the response is not a SignalFx response ({error!r})") from error
    return by_host


def _values(points: Sequence[Any]) -> list[tuple[float, float]]:
    return [
        (float(point[0]) if isinstance(point[0], int | float) else 0.0, float(point[1]))
        for point in points or ()
        if isinstance(point, list) and len(point) > 1 and isinstance(point[1], int | float)
    ]
