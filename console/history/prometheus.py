"""History of a day from a Prometheus, where one is named: the metrics of the agents and of the manager.

Few reads at once, each with a limit of time and size, and no page waits long for one. A failure is a sentence on the
page, never an error, and holds for all pages for some seconds: a Prometheus that is silent delays one of them.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from component_base.http_client import HttpClient, Reach, RequestFailed
from component_base.prometheus import PrometheusClient
from console.history.memory import SERIES, HistoryPoint

_RANGE_SECONDS: Final = 24 * 3600
_STEP_SECONDS: Final = 900
_PAGE_SECONDS: Final = 2.0
"""Time that a page waits for a read; a later one shows it."""
_READ_SECONDS: Final = 10.0
"""Limit of the queries of one read together."""
_KEEP_SECONDS: Final = 60.0
_SILENT_SECONDS: Final = 20.0
"""Time without another read after a failure."""
_MOST_KEPT: Final = 64
_LONGEST_ANSWER_BYTES: Final = 2**18
QUERIES: Final[Mapping[str, str]] = {
    "used": 'sum(max by (node, instance) (koordlet_usage_cpu_cores{{kind="node"{node}}}))',
    "prod_used": 'sum(max by (node, instance) (koordlet_usage_cpu_cores{{kind="prod"{node}}}))',
    "prod_peak": 'sum(max by (node, instance) (koordlet_prod_peak_cpu_cores{{predictor!=""{node}}}))',
    "mid": 'sum(max by (node) (koord_manager_node_mid_cpu_cores{{node!=""{node}}}))',
    "mid_requests": 'sum(max by (node) (koord_manager_node_mid_cpu_term_cores{{term="allocated"{node}}}))',
}
"""Query of each series. A node is chosen by the label `node`, which the monitoring objects of the chart set, and other
matchers are in the same place; the largest of equal series is taken, because two replicas of Prometheus may be read as
one."""


class CpuHistory:
    """CPU of a day from one Prometheus, for one event loop; `selector` has matchers that all series have to match."""

    def __init__(self, url: str, selector: str = "") -> None:
        self._selector = selector.strip("{} ")
        self._reads: OrderedDict[str, tuple[float, asyncio.Task[Mapping[str, Any]]]] = OrderedDict()
        """The read of each node and when it began, the oldest first."""
        self._slots = asyncio.Semaphore(2)
        self._problem = ""
        self._silent_until = 0.0
        self._reach = Reach(url, dict, _READ_SECONDS, largest_bytes=_LONGEST_ANSWER_BYTES, use_environment=False)

    async def cpu(self, node: str = "") -> Mapping[str, Any]:
        """Return the points of CPU of a node, or of all nodes, or why there are none, as values of a page."""
        began, read = self._reads.get(node, (0.0, None))
        if read is None or (read.done() and time.monotonic() >= began + _KEEP_SECONDS):
            read = asyncio.create_task(self._read(node))
            self._reads[node] = time.monotonic(), read
            self._reads.move_to_end(node)
            for name in [name for name, (_, earlier) in self._reads.items() if earlier.done()]:
                if len(self._reads) > _MOST_KEPT:
                    del self._reads[name]
        await asyncio.wait({read}, timeout=_PAGE_SECONDS)
        if not read.done():
            return _problem(f"takes longer than {_PAGE_SECONDS:.0f} s; the next refresh may show the chart")
        return read.result()

    async def _read(self, node: str) -> Mapping[str, Any]:
        async with self._slots:
            if time.monotonic() < self._silent_until:
                del self._reads[node]
                return _problem(self._problem)
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    return {"prometheus_points": await self._points(node)}
            except TimeoutError:
                self._problem = f"did not answer within {_READ_SECONDS:.0f} s"
            except RequestFailed as error:
                self._problem = f"does not answer: {error}"
            self._silent_until = time.monotonic() + _SILENT_SECONDS
            del self._reads[node]
            return _problem(self._problem)

    async def _points(self, node: str) -> list[HistoryPoint]:
        chosen = [f"node={json.dumps(node)}"] if node else []
        matchers = "".join(f",{matcher}" for matcher in (*chosen, self._selector) if matcher)
        end = int(time.time()) // _STEP_SECONDS * _STEP_SECONDS
        steps = range(end - _RANGE_SECONDS, end + 1, _STEP_SECONDS)
        client = PrometheusClient(HttpClient(self._reach))
        try:
            series = [await _values(client, QUERIES[name].format(node=matchers), steps) for name in SERIES]
        finally:
            await client.close()
        points = [HistoryPoint(at, tuple(values.get(at) for values in series)) for at in steps]
        known = [at for at, point in enumerate(points) if any(value is not None for value in point.values)]
        return points[known[0] : known[-1] + 1] if known else []  # a gap between them is one in the chart


async def _values(client: PrometheusClient, query: str, steps: range) -> Mapping[float, float]:
    """Return the values of a query by time. Raises RequestFailed."""
    series = await client.query_range(query, steps)
    return {at: value for _, points in series[:1] for at, value in points if math.isfinite(value)}


def _problem(text: str) -> dict[str, Any]:
    return {"prometheus_problem": f"Prometheus {text}"}
