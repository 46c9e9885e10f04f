"""History of a day from a Prometheus, where one is named: the metrics of the agents and of the manager.

Few queries at once, each with a limit of time and size; a failure is a sentence on the page, never an error.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import OrderedDict
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import httpx2

from console.history.memory import SERIES, Point

_RANGE_SECONDS: Final = 24 * 3600
_STEP_SECONDS: Final = 900
_TIMEOUT_SECONDS: Final = 5.0
_KEEP_SECONDS: Final = 60.0
_MOST_KEPT: Final = 64
_LONGEST_ANSWER_BYTES: Final = 2**20
_QUERIES: Final[Mapping[str, str]] = {
    "used": 'sum(koordlet_usage_cpu_cores{{kind="node"{agent}}})',
    "prod_used": 'sum(koordlet_usage_cpu_cores{{kind="prod"{agent}}})',
    "prod_peak": "sum(max by (node, instance) (koordlet_prod_peak_cpu_cores{{{of_agent}}}))",
    "mid": "sum(max by (node) (koord_manager_node_mid_cpu_cores{{{manager}}}))",
    "mid_requests": 'sum(max by (node) (koord_manager_node_mid_cpu_term_cores{{term="allocated"{and_manager}}}))',
}
"""Query of each series; a node is chosen by the label `node` of the monitoring objects of the chart."""


class Prometheus:
    """Client of one Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._kept: OrderedDict[str, tuple[float, Mapping[str, Any]]] = OrderedDict()
        self._slots = asyncio.Semaphore(2)

    async def cpu(self, node: str = "") -> Mapping[str, Any]:
        """Return the points of CPU of a node, or of all nodes, or why there are none, as values of a page."""
        async with self._slots:
            kept = self._kept.get(node)
            if kept is None or time.monotonic() >= kept[0]:
                kept = (time.monotonic() + _KEEP_SECONDS, await self._read(node))
                self._kept[node] = kept
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return kept[1]

    async def _read(self, node: str) -> Mapping[str, Any]:
        chosen = f"node={json.dumps(node)}" if node else ""
        more = f",{chosen}" if chosen else ""
        parts = {"agent": more, "of_agent": chosen, "manager": chosen, "and_manager": more}
        end = time.time() // _STEP_SECONDS * _STEP_SECONDS
        try:
            async with httpx2.AsyncClient(timeout=_TIMEOUT_SECONDS, trust_env=False, follow_redirects=False) as client:
                series = [await self._range(client, _QUERIES[name].format(**parts), end) for name in SERIES]
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError, RecursionError) as error:
            return {"prometheus_problem": f"Prometheus does not answer: {error or type(error).__name__}"}
        times = sorted({at for each in series for at in each})
        return {"prometheus_points": [Point(at, tuple(each.get(at) for each in series)) for at in times]}

    async def _range(self, client: httpx2.AsyncClient, query: str, end: float) -> dict[int, float]:
        """Return the values of a query by time. Raises what a foreign server can make of its answer."""
        asked = {"query": query, "start": str(end - _RANGE_SECONDS), "end": str(end), "step": str(_STEP_SECONDS)}
        content = bytearray()
        async with client.stream("GET", f"{self._url}/api/v1/query_range", params=asked) as answer:
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > _LONGEST_ANSWER_BYTES:
                    raise ValueError("its answer is too long")
        document = json.loads(content)
        if answer.status_code != HTTPStatus.OK:
            raise ValueError(str(document.get("error", answer.status_code))[:300])
        found = document["data"]["result"]
        values = {int(at): float(value) for at, value in found[0]["values"]} if found else {}
        return {at: value for at, value in values.items() if math.isfinite(value)}
