"""Prometheus: mean and deviation over each window, and the time of the newest sample, by instant queries.

A node has several series after its exporter restarted, and in a store of several clusters or replicas. Its mean and
deviation are then those of the series with the newest sample; of several that go on, the one with the highest mean.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from component_base import logs
from component_base.http_client import HttpClient, Reach, RequestFailed
from component_base.prometheus import InstantValue, PrometheusClient
from scheduler_plugin.load_watcher import analysis, records
from scheduler_plugin.load_watcher.providers import provider, provider_spec
from scheduler_plugin.load_watcher.providers.provider import Fetched, KnownNode, ProviderFailed, ReadKnownNodes
from scheduler_plugin.load_watcher.providers.provider_spec import METHODS, Query, Unit
from scheduler_plugin.load_watcher.records import BOUNDED, Metadata, Metric, MetricType, NodeMetrics, Window

DEFAULT_ADDRESS: Final = "http://prometheus-k8s:9090"
TIMEOUT_SECONDS: Final = 10.0
_CONCURRENT_QUERIES: Final = 4
_NEWEST: Final = "newest"
"""Key of the times of the newest samples, beside those of the statistics."""
_SAME_SECONDS: Final = 60.0
"""Newest samples so close together are of series that go on: exporters are scraped at different times."""
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
        return [*self._warnings(), *(problem for problems in checks for problem in problems)]

    async def fetch(self, window: Window) -> Fetched:
        """Return the results of every query over the window; a failed query is reported and skipped.

        The window of a node ends with its newest sample; of CPU and memory the older one counts. Raises ProviderFailed
        if all queries fail.
        """
        answers = await asyncio.gather(*(self._answer(query, window.duration) for query in self._queries))
        problems = self._warnings()
        if self._queries and not any(METHODS.keys() & samples.keys() for samples, _failures in answers):
            raise ProviderFailed(answers[0][1][0])
        existing = self._nodes()
        node_names = self._names(existing)
        by_node: dict[str, list[Metric]] = {}
        ends: dict[str, float] = {}
        several: dict[MetricType, list[str]] = {}
        for query, (samples, failures) in zip(self._queries, answers, strict=True):
            problems += failures
            chosen = None
            if query.type in BOUNDED:
                series = _SeriesOfNodes(samples, window, node_names)
                chosen = set(series.chosen.values())
                several[query.type] = series.several
                for name, labels in series.chosen.items():
                    ends[name] = min(ends.get(name, math.inf), series.newest(labels))
            for method in (method for method in METHODS if method in samples):
                kept = [sample for sample in samples[method] if chosen is None or _key(sample.labels) in chosen]
                for name, metric in node_records(
                    kept, query, method, window.duration, node_names=node_names, nodes=existing
                ):
                    by_node.setdefault(name, []).append(metric)
        if any(several.values()):
            kinds = ", ".join(kind for kind, names in several.items() if names)
            problems.append(_several_problem(kinds, sorted(set(itertools.chain(*several.values())))))
        nodes = {
            name: NodeMetrics(
                metrics,
                {},
                existing[name].metadata if name in existing else Metadata(),
                records.up_to(window, ends.get(name, window.end)),
            )
            for name, metrics in by_node.items()
        }
        return Fetched(nodes, problems)

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

    async def _answer(self, query: Query, duration: str) -> tuple[dict[str, list[InstantValue]], list[str]]:
        """Return the series of each statistic and of `_NEWEST`, and why others are missing."""
        texts = {
            method: provider_spec.query_text(query.series, method, duration, is_expression=query.is_expression)
            for method in METHODS
        }
        if query.type in BOUNDED:
            texts[_NEWEST] = provider_spec.newest_text(query.series, duration)
        results = await asyncio.gather(*(self._query(text) for text in texts.values()), return_exceptions=True)
        samples, failures = {}, []
        for key, result in zip(texts, results, strict=True):
            if isinstance(result, ProviderFailed):
                failures.append(str(result))
            elif isinstance(result, BaseException):
                raise result
            else:
                samples[key] = result
        return samples, failures

    def _warnings(self) -> list[str]:
        warnings, self._prometheus.warnings = self._prometheus.warnings, set()
        return [f"{self._address}: {text}" for text in sorted(warnings)]

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
    several = [name for name, count in names.items() if count > 1]
    unknown = [repr(name) for name in names if existing and name not in existing]
    if several:
        yield _several_problem(series, several)
    if unknown:
        seen, labels = logs.some(unknown, 3), " or ".join(node_names.labels)
        yield f"{series}: {seen} in label {labels} is not a node of this cluster, want its name or an address"


def _several_problem(measured: str, nodes: Sequence[str]) -> str:
    return (
        f"{measured}: several series for {logs.some([repr(name) for name in nodes], 3)}, want one for each node; "
        "that with the newest sample counts; if others are of another cluster, set matchers"
    )


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


_Key = frozenset[tuple[str, str]]


def _key(labels: Mapping[str, str]) -> _Key:
    return frozenset(labels.items())


class _SeriesOfNodes:
    """The one series of each node that counts."""

    def __init__(self, samples: Mapping[str, Sequence[InstantValue]], window: Window, node_names: NodeNames) -> None:
        self._newest = {_key(labels): at for labels, at in samples.get(_NEWEST, ()) if at >= window.start}
        self._unknown = float(window.start if self._newest else window.end)
        self.chosen: dict[str, _Key] = {}
        """Node -> labels of its series."""
        self.several: list[str] = []
        """Nodes with more than one."""
        means: dict[str, dict[_Key, float]] = {}
        for method in reversed(list(METHODS)):  # the deviation only where the mean is missing
            for labels, value in samples.get(method, ()):
                means.setdefault(node_names.find(labels), {})[_key(labels)] = value
        for name, by_series in means.items():
            if len(by_series) > 1:
                self.several.append(name)
            last = max(map(self.newest, by_series))
            going_on = [labels for labels in by_series if last - self.newest(labels) <= _SAME_SECONDS]
            self.chosen[name] = max(going_on, key=lambda labels: (by_series[labels], sorted(labels)))

    def newest(self, labels: _Key) -> float:
        """Return the time of the newest sample of a series; the end of the window if there is none."""
        return self._newest.get(labels, self._unknown)


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
