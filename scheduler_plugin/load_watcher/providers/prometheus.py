"""Prometheus: mean and deviation over each window, by instant queries."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from component_base import logs
from component_base.http_client import HttpClient, Reach, RequestFailed
from component_base.prometheus import InstantValue, PrometheusClient
from scheduler_plugin.load_watcher import analysis
from scheduler_plugin.load_watcher.providers import provider, provider_spec
from scheduler_plugin.load_watcher.providers.provider import Fetched, KnownNode, ProviderFailed, ReadKnownNodes
from scheduler_plugin.load_watcher.providers.provider_spec import METHODS, Query, Unit
from scheduler_plugin.load_watcher.records import Metadata, Metric, MetricType, NodeMetrics, Window

DEFAULT_ADDRESS: Final = "http://prometheus-k8s:9090"
TIMEOUT_SECONDS: Final = 10.0
_CONCURRENT_QUERIES: Final = 4
_UNITS: Final[Mapping[Unit, str]] = {
    Unit.RATIO: "a share of 1",
    Unit.PERCENT: "a percentage",
    Unit.CORES: "cores in use",
    Unit.BYTES: "bytes in use",
    Unit.AMOUNT: "an amount",
}


@dataclass(frozen=True, slots=True)
class NodeNames:
    """Labels that hold the name or an address of the node of a series: the first one present counts, without a port."""

    labels: Sequence[str] = ("node", "instance")
    by_address: Mapping[str, str] = field(default_factory=dict)
    """Address -> name of the node that has it."""

    def find(self, labels: Mapping[str, str]) -> str:
        """Return the name of the node, the address if no node has it; empty if none of the labels is present."""
        host = _without_port(next((labels[label] for label in self.labels if labels.get(label)), ""))
        return self.by_address.get(host, host)


def _without_port(value: str) -> str:
    """Return the host of `host`, `host:port`, `[IPv6]:port` or an IPv6 address."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    host, colon, port = value.rpartition(":")
    return host if colon and ":" not in host and port.isdigit() else value


class PrometheusProvider:
    """Client of one server."""

    name = provider_spec.PROMETHEUS
    has_deviation = True

    def __init__(self, reach: Reach, queries: Sequence[Query], nodes: ReadKnownNodes, node_names: NodeNames) -> None:
        client = HttpClient(reach)
        self._prometheus, self._address = PrometheusClient(client), client.shown
        self._queries = queries
        self._nodes = nodes
        self._node_names = node_names
        self._gate = asyncio.Semaphore(_CONCURRENT_QUERIES)

    async def check(self) -> Sequence[str]:
        """Run each query once and return a problem unless it has one plausible series for each existing node."""
        checks = await asyncio.gather(*(self._check(query) for query in self._queries))
        return [problem for problems in checks for problem in problems]

    async def fetch(self, window: Window) -> Fetched:
        """Return the results of every query over the window; a failed query is reported and skipped.

        Raises ProviderFailed if all queries fail.
        """
        requests = [(query, method) for query in self._queries for method in METHODS]
        results = await asyncio.gather(*(self._result(query, method, window) for query, method in requests))
        failed = [str(result) for result in results if isinstance(result, ProviderFailed)]
        if failed and len(failed) == len(requests):
            raise ProviderFailed(failed[0])
        existing = self._nodes()
        node_names = self._names(existing)
        by_node: dict[str, list[Metric]] = {}
        for (query, method), result in zip(requests, results, strict=True):
            if not isinstance(result, ProviderFailed):
                for name, metric in node_records(
                    result, query, method, window.duration, node_names=node_names, nodes=existing
                ):
                    by_node.setdefault(name, []).append(metric)
        nodes = {
            name: NodeMetrics(metrics, {}, existing[name].metadata if name in existing else Metadata())
            for name, metrics in by_node.items()
        }
        return Fetched(nodes, failed)

    async def is_healthy(self) -> bool:
        """Return whether the configured server evaluates a query."""
        try:
            await self._query("vector(1)")
        except ProviderFailed:
            return False
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self._prometheus.close()

    async def _result(self, query: Query, method: str, window: Window) -> list[InstantValue] | ProviderFailed:
        text = provider_spec.query_text(query.series, method, window.duration, is_expression=query.is_expression)
        try:
            return await self._query(text)
        except ProviderFailed as error:
            return error

    async def _query(self, text: str) -> list[InstantValue]:
        async with self._gate:
            try:
                return await self._prometheus.query(text)
            except RequestFailed as error:
                raise ProviderFailed(f"{text}: {error}") from error

    async def _check(self, query: Query) -> Sequence[str]:
        try:
            samples = await self._query(query.series)
        except ProviderFailed as error:
            return (str(error),)
        if not samples:
            return (f"{self._address}: {query.series} has no series, so it gives no {query.type}",)
        existing = self._nodes()
        node_names = self._names(existing)
        names = Counter(node_names.find(labels) for labels, _value in samples)
        naming = _naming_problems(query.series, names, set(existing), node_names)
        return [*naming, *_unit_problems(query, samples, node_names, existing)]

    def _names(self, existing: Mapping[str, KnownNode]) -> NodeNames:
        return replace(self._node_names, by_address=provider.by_address(existing))


def _naming_problems(series: str, names: Counter[str], existing: set[str], node_names: NodeNames) -> Iterable[str]:
    several = [repr(name) for name, count in names.items() if count > 1]
    unknown = [repr(name) for name in names if existing and name not in existing]
    if several:
        yield f"{series} has several series for {logs.some(several, 3)}, want one for each node; the last one is used"
    if unknown:
        seen, labels = logs.some(unknown, 3), " or ".join(node_names.labels)
        yield f"{series}: {seen} in label {labels} is not a node of this cluster, want its name or an address"


def _unit_problems(
    query: Query, samples: Sequence[InstantValue], node_names: NodeNames, existing: Mapping[str, KnownNode]
) -> Iterable[str]:
    if query.type not in (MetricType.CPU, MetricType.MEMORY):
        return
    for labels, value in samples:
        name = node_names.find(labels)
        percent = _percent(value, query.unit, existing.get(name))
        if percent is not None and percent > analysis.HIGHEST_PERCENT:
            yield f"{query.series} is {value:g} for {name!r}, too much for {_UNITS[query.unit]}; check its unit"
            return


def node_records(
    samples: Sequence[InstantValue],
    query: Query,
    method: str,
    duration: str,
    *,
    node_names: NodeNames,
    nodes: Mapping[str, KnownNode],
) -> Iterable[tuple[str, Metric]]:
    """Yield each series as a record of its node, in percent; a series without a node name is skipped."""
    for labels, value in samples:
        name = node_names.find(labels)
        percent = _percent(value, query.unit, nodes.get(name))
        if name and percent is not None:
            yield name, Metric(query.series, query.type, METHODS[method], duration, percent)


def _percent(value: float, unit: Unit, node: KnownNode | None) -> float | None:
    if unit in (Unit.PERCENT, Unit.AMOUNT):
        return value
    if unit is Unit.RATIO:
        return value * 100.0
    if node is None:
        return None
    if unit is Unit.CORES:
        return provider.to_percent(value * 1000.0, node.cpu_millis)
    return provider.to_percent(value, node.memory_bytes)
