"""KubernetesMetricsServer: current usage from `metrics.k8s.io`, without windows and without deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, quantities, times
from apiserver_client import errors, objects, resources, session
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider, provider_spec
from scheduler_plugin.load_watcher.providers.provider import Fetched, KnownNode, ProviderFailed, ReadKnownNodes
from scheduler_plugin.load_watcher.records import Metric, MetricType, NodeMetrics, Statistic, Window

_NODE_METRICS: Final = resources.Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
_TYPES: Final = {names.CPU: MetricType.CPU, names.MEMORY: MetricType.MEMORY}


class MeasuredUsage(msgspec.Struct):
    """Item of metrics-server's list."""

    metadata: pods.ObjectMeta = pods.ObjectMeta()
    usage: pods.QuantityMap = {}
    timestamp: str = ""
    """End of the measured period, RFC 3339."""
    window: str = ""
    """Length of the measured period, as "15.05s"."""


class MetricsServerProvider:
    """Provider that lists node metrics through the apiserver."""

    name = provider_spec.METRICS_SERVER
    has_deviation = False

    def __init__(self, api: session.Session, nodes: ReadKnownNodes) -> None:
        self._api = api
        self._nodes = nodes

    async def check(self) -> Sequence[str]:
        """Return a problem if the API is not served."""
        try:
            await self._list()
        except ProviderFailed as error:
            return (str(error),)
        return ()

    async def fetch(self, window: Window) -> Fetched:  # noqa: ARG002  # it measures one moment, whatever the window
        """Return the last usage that metrics-server has of every known node. Raises ProviderFailed."""
        return usage_percent(await self._list(), self._nodes())

    async def is_healthy(self) -> bool:
        """Return whether the list succeeds."""
        return not await self.check()

    async def close(self) -> None:
        """Do nothing: the caller owns the session."""

    async def _list(self) -> Sequence[MeasuredUsage]:
        try:
            return (await objects.list_all(self._api, _NODE_METRICS, decode=MeasuredUsage)).items
        except errors.ApiServerError as error:
            raise ProviderFailed(f"metrics-server: {error}; is metrics-server installed?") from error


def usage_percent(items: Sequence[MeasuredUsage], nodes: Mapping[str, KnownNode]) -> Fetched:
    """Convert usage to percent of capacity; unknown nodes are skipped.

    Record names and rollups are empty, as upstream's.
    """
    problems = []
    measured = {}
    for item in items:
        node = nodes.get(item.metadata.name)
        if node is None:
            continue
        try:
            used = pods.units(item.usage)
        except quantities.InvalidQuantity as error:
            problems.append(f"node {item.metadata.name}: {error}")
            continue
        capacity = {names.CPU: node.cpu_millis, names.MEMORY: node.memory_bytes}
        percents = {
            kind: provider.to_percent(used[name], capacity[name]) for name, kind in _TYPES.items() if name in used
        }
        metrics = [
            Metric(type=kind, operator=Statistic.LATEST, value=percent)
            for kind, percent in percents.items()
            if percent is not None
        ]
        measured[item.metadata.name] = NodeMetrics(metrics, {}, node.metadata, _window(item))
    return Fetched(measured, problems)


def _window(item: MeasuredUsage) -> Window | msgspec.UnsetType:
    """Return the measured period; metrics-server serves its last scrape, by default until 15 s later."""
    end = times.parse_rfc3339_or_none(item.timestamp)
    if end is None:
        return msgspec.UNSET
    try:
        seconds = times.duration_seconds(item.window)
    except ValueError:
        seconds = 0.0
    return records.moment(end.timestamp(), max(seconds, 0.0))
