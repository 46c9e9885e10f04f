"""InfluxDB 2: the points that koordlets write (docs/how-to/influxdb.md), read by Flux queries."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from api_types.kubernetes import times
from component_base.http_client import Reach
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider, provider_spec
from scheduler_plugin.load_watcher.providers.provider import (
    Fetched,
    HttpProvider,
    KnownNode,
    ProviderFailed,
    ReadKnownNodes,
)
from scheduler_plugin.load_watcher.records import Metric, MetricType, NodeMetrics, Statistic, Window

TIMEOUT_SECONDS: Final = 30.0
_TYPES: Final = {"cpu_cores": MetricType.CPU, "memory_bytes": MetricType.MEMORY}
_ERROR: Final = "error"
_LAST: Final = "LAST"


class InfluxDbProvider(HttpProvider):
    """Client of one server. A token that can read the bucket is enough."""

    name = provider_spec.INFLUXDB
    has_deviation = True
    health_path = "/health"

    def __init__(self, reach: Reach, org: str, bucket: str, nodes: ReadKnownNodes) -> None:
        super().__init__(reach)
        self._org, self._bucket = org, bucket
        self._nodes = nodes

    async def check(self) -> Sequence[str]:
        """Return a problem unless the bucket has a point of the last hour."""
        text = f"{_source(self._bucket, '-1h', 'now()')} |> limit(n: 1) |> group() |> limit(n: 1)"
        try:
            rows = list(_rows(await self._query(text)))
        except ProviderFailed as error:
            return (str(error),)
        if rows:
            return ()
        return (f"{self._address}: bucket {self._bucket!r} has no koordlet_usage of nodes in the last hour",)

    async def fetch(self, window: Window) -> Fetched:
        """Return mean and deviation of each node over the window. Raises ProviderFailed."""
        return percents(await self._query(flux(self._bucket, window)), window, self._nodes())

    async def _query(self, text: str) -> str:
        response = await self._client.send(
            "POST",
            "/api/v2/query",
            params={"org": self._org},
            headers={"Content-Type": "application/vnd.flux", "Accept": "application/csv"},
            content=text,
        )
        return response.text


def flux(bucket: str, window: Window) -> str:
    """Build one query with three results: mean and population deviation of all points of a window, and the last."""
    return (
        f"points = {_source(bucket, str(window.start), str(window.end))}\n"
        f'points |> mean() |> yield(name: "{Statistic.AVG}")\n'
        f'points |> stddev(mode: "population") |> yield(name: "{Statistic.STD}")\n'
        f'points |> last() |> yield(name: "{_LAST}")\n'
    )


def _source(bucket: str, start: str, stop: str) -> str:
    name = msgspec.json.encode(bucket).decode().replace("${", "\\${")
    return (
        f"from(bucket: {name}) |> range(start: {start}, stop: {stop}) "
        '|> filter(fn: (r) => r._measurement == "koordlet_usage" and r.kind == "node") '
        '|> group(columns: ["node", "_field"])'
    )


def percents(response: str, window: Window, nodes: Mapping[str, KnownNode]) -> Fetched:
    """Convert the rows of a response to percent of capacity; unknown nodes are skipped. Raises ProviderFailed.

    The window of a node ends with its newest point; of CPU and memory the older one counts.
    """
    by_node: dict[str, list[Metric]] = {}
    ends: dict[str, float] = {}
    for row in _rows(response):
        node, kind = nodes.get(row.get("node", "")), _TYPES.get(row.get("_field", ""))
        if node is None or kind is None:
            continue
        if row.get("result") == _LAST:
            at = times.parse_rfc3339_or_none(row.get("_time"))
            ends[row["node"]] = min(ends.get(row["node"], math.inf), at.timestamp() if at else window.end)
            continue
        try:
            value = float(row["_value"])
            operator = Statistic(row["result"])
        except (KeyError, ValueError) as error:
            raise ProviderFailed(f"cannot read a row of InfluxDB's response: {error!r}") from error
        amount, whole = (value * 1000, node.cpu_millis) if kind is MetricType.CPU else (value, node.memory_bytes)
        percent = provider.to_percent(amount, whole)
        if percent is not None:
            by_node.setdefault(row["node"], []).append(Metric(row["_field"], kind, operator, window.duration, percent))
    return Fetched(
        {
            name: NodeMetrics(metrics, {}, nodes[name].metadata, records.up_to(window, ends.get(name, window.end)))
            for name, metrics in by_node.items()
        }
    )


def _rows(response: str) -> Iterator[dict[str, str]]:
    """Yield the rows of all tables; an empty line begins another table with its own header.

    A query that fails after its first table ends with a table of the error. Raises ProviderFailed.
    """
    header: list[str] = []
    for cells in _cells(response):
        if not cells or not any(cells):
            header = []
        elif not header:
            header = cells
        elif _ERROR in header:
            raise ProviderFailed(f"InfluxDB aborted the query: {dict(zip(header, cells, strict=False)).get(_ERROR)}")
        else:
            yield dict(zip(header, cells, strict=False))


def _cells(response: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(response.splitlines())
    except csv.Error as error:
        raise ProviderFailed(f"InfluxDB did not return CSV: {error}") from error
