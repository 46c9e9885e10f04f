"""Serve the debug pages of a running extender: nodes, decisions on pods, and the effective configuration.

Pages are requested in threads of the HTTP endpoint; state that can change is read in the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from api_types.kubernetes import yaml_text
from component_base import http_endpoint
from component_base.http_endpoint import Page, Route
from scheduler_plugin.assembly import Parts
from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import PluginConfiguration
from scheduler_plugin.decisions import explanation, pages
from scheduler_plugin.decisions import metrics as decision_metrics
from scheduler_plugin.decisions.recorder import RecordedDecision
from scheduler_plugin.state import mid_quotas

_LISTED_DECISIONS: Final = 500
_TIMEOUT_SECONDS: Final = 2.0  # of a read in the event loop


@dataclass(eq=False)
class DebugPages:
    """Pages about the parts of each profile of a process, whose event loop is `loop`.

    A node's state is that of the first profile, a pod's decisions are those of the profile that has them. `mode` is
    plugin or extender.
    """

    profiles: Sequence[Parts]
    configurations: Mapping[str, PluginConfiguration]
    loop: asyncio.AbstractEventLoop
    mode: str

    def __post_init__(self) -> None:
        self._parts = self.profiles[0]

    def routes(self) -> dict[str, Route]:
        """Return the page of each path, for the HTTP endpoint of the process."""
        return {
            "/debug/nodes/": self.node,
            "/debug/pods/": self.pod,
            "/debug/config": lambda _query: self.configuration(),
        }

    def node(self, query: Mapping[str, str]) -> Page:
        """Show the state of one node; without a name, the time of each node's report."""
        if not query["path"]:
            return http_endpoint.json_page(decision_metrics.report_ages(self._parts.vectors))
        future = asyncio.run_coroutine_threadsafe(self._held(query["path"]), self.loop)
        return http_endpoint.json_page(future.result(_TIMEOUT_SECONDS))

    def pod(self, query: Mapping[str, str]) -> Page:
        """Explain the decisions on a pod, for `?nodes=` nodes at most; without a name, list the pods."""
        future = asyncio.run_coroutine_threadsafe(self._decisions(query["path"]), self.loop)
        parts, decisions, of_namespace = future.result(_TIMEOUT_SECONDS)
        if not query["path"]:
            return http_endpoint.json_page(explanation.index(decisions))
        if not decisions:
            text = f"no recorded decision on the pod {query['path']!r}, want namespace/name of a recent pod; "
            text += "of several replicas only the leader's has records\n"
            return Page("text/plain; charset=utf-8", text.encode(), HTTPStatus.NOT_FOUND)
        plugins = parts.cycle.rejecting_plugins
        most = query.get("nodes", "0")
        most_nodes = int(most) if most.isascii() and most.isdigit() and len(most) < 10 else 0
        page = explanation.page(query["path"], decisions, plugins, parts.resources, most_nodes)
        decided = [decision | {"mode": self.mode} for decision in page["decisions"]]
        return http_endpoint.json_page(page | {"decisions": decided, "midOfNamespace": of_namespace})

    def configuration(self) -> Page:
        """Show the effective configuration, with every default."""
        return Page("application/yaml", yaml_text.dump(loader.effective_document(self.configurations)).encode())

    async def _held(self, name: str) -> dict[str, Any]:
        return pages.node_page(self._parts.cluster.entries.get(name), self._parts.resources)

    async def _decisions(self, key: str) -> tuple[Parts, list[RecordedDecision], dict[str, Any] | None]:
        """Return the decisions on a pod with their profile, or the last ones, and of a Mid pod its namespace's use.

        Of the last ones only what never shrinks is read.
        """
        if not key:
            recent = [one for parts in self.profiles for one in parts.records.recent(_LISTED_DECISIONS)]
            return self._parts, sorted(recent, key=lambda one: -one.at)[:_LISTED_DECISIONS], None
        for parts in self.profiles:
            if decisions := parts.records.decisions(key):
                pod, namespace = decisions[0].pod, mid_quotas.pod_namespace(key)
                is_mid = pod.mid_cpu_millis or pod.mid_memory_bytes
                use = pages.namespace_page(namespace, parts.vectors.mid_quotas) if is_mid else None
                return parts, decisions, use
        return self._parts, [], None
