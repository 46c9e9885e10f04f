"""What a person may look at while it runs: nodes, decisions on pods, and the configuration in force.

Pages are asked for in threads of the endpoint; what may change underneath is read in the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import yaml

from component_base import http_endpoint
from component_base.http_endpoint import Page, Route
from scheduler_plugin.assembly import Parts
from scheduler_plugin.config.loader import Configuration
from scheduler_plugin.decisions import explanation, node_page
from scheduler_plugin.decisions import metrics as decision_metrics
from scheduler_plugin.decisions.recorder import Decision

_LISTED_DECISIONS: Final = 500
_PATIENCE_SECONDS: Final = 2.0  # with the event loop


class DebugPages:
    """Pages over the parts of one extender, whose event loop is `loop`."""

    def __init__(self, parts: Parts, configuration: Configuration, loop: asyncio.AbstractEventLoop) -> None:
        self._parts = parts
        self._configuration = configuration
        self._loop = loop

    def routes(self) -> dict[str, Route]:
        """For the endpoint of the process."""
        return {
            "/debug/nodes/": self.node,
            "/debug/pods/": self.pod,
            "/debug/config": lambda _query: self.configuration(),
        }

    def node(self, query: Mapping[str, str]) -> Page:
        """What is held of one node; without a name when each was reported."""
        if not query["path"]:
            return http_endpoint.json_page(decision_metrics.report_ages(self._parts.node_columns, self._parts.vectors))
        asked = asyncio.run_coroutine_threadsafe(self._held(query["path"]), self._loop)
        return http_endpoint.json_page(asked.result(_PATIENCE_SECONDS))

    def pod(self, query: Mapping[str, str]) -> Page:
        """Why a pod is where it is, `?nodes=` of them at most; without a name which pods there is a page of."""
        asked = asyncio.run_coroutine_threadsafe(self._decisions(query["path"]), self._loop)
        found = asked.result(_PATIENCE_SECONDS)
        if not query["path"]:
            return http_endpoint.json_page(explanation.index(found))
        if not found:
            text = f"nothing is remembered of the pod {query['path']!r}, want namespace/name of a recent one\n"
            return Page("text/plain; charset=utf-8", text.encode(), HTTPStatus.NOT_FOUND)
        reasons = explanation.Reasons(self._parts.cycle.reasons, self._parts.cycle.rejecting_policies)
        most = query.get("nodes", "0")
        most_nodes = int(most) if most.isascii() and most.isdigit() and len(most) < 10 else 0
        page = explanation.page(query["path"], found, reasons, self._parts.resources, most_nodes)
        return http_endpoint.json_page(page)

    def configuration(self) -> Page:
        """The effective configuration, every default filled in."""
        return Page("application/yaml", yaml.safe_dump(self._configuration.document()).encode())

    async def _held(self, name: str) -> dict[str, Any]:
        return node_page.node_page(self._parts.cluster.entries.get(name), self._parts.resources)

    async def _decisions(self, key: str) -> list[Decision]:
        """Of a pod, or the last ones; kept ones do not change but for where the pod went."""
        return self._parts.records.of(key) if key else self._parts.records.recent(_LISTED_DECISIONS)
