"""Load watcher inside the extender: providers -> windows -> measurements -> rows of the plugins that read them.

All plugins and profiles share one feed. Work that takes long with thousands of nodes runs in a thread or in slices
between the calls of kube-scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, metrics_core
from prometheus_client.registry import Collector

from api_types.kubernetes import pods, quantities
from apiserver_client.session import Session
from component_base.metric_families import gauge
from scheduler_plugin.load_watcher.database import Database
from scheduler_plugin.load_watcher.providers import provider, registry
from scheduler_plugin.load_watcher.providers.provider import KnownNode
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from scheduler_plugin.load_watcher.records import BOUNDED, Windows
from scheduler_plugin.load_watcher.watcher import Refreshed, Watcher, WatcherMetrics
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.node_columns import RESOURCES, FallbackLevel
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.node_columns import NodeColumns


@dataclass(frozen=True, eq=False)
class FallbackCollector(Collector):
    """Collector of the number of nodes at each fallback level, which all Trimaran plugins share."""

    plugin: MeasuredPlugin
    vectors: NodeColumns
    clock: Callable[[], float]

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        rows = np.fromiter(list(self.vectors.rows.values()), dtype=np.intp)
        levels = zip(RESOURCES, self.plugin.columns.fallback_levels(rows, self.clock()), strict=True)
        counts = {resource: np.bincount(of_rows, minlength=len(FallbackLevel)) for resource, of_rows in levels}
        yield gauge(
            "koord_scheduler_plugin_fallback_level_nodes",
            "Nodes by fallback level of Trimaran (docs/reference/scheduler-plugins/target-load-packing.md).",
            ["resource", "level"],
            [
                ([resource, level.name.lower()], int(of_resource[level]))
                for resource, of_resource in counts.items()
                for level in FallbackLevel
            ],
        )


_ROWS_PER_TURN: Final = 20


@dataclass(eq=False)
class MeasurementFeed:
    """Refreshes measurements and the rows of the plugins that read them."""

    specs: Sequence[ProviderSpec]
    measurements: Measurements
    plugins: Sequence[MeasuredPlugin]
    cluster: Cluster
    clock: Callable[[], float]
    database: Database | None = None
    """Keeps the windows over a restart; None keeps them in memory only."""
    _known: dict[str, tuple[pods.Node, KnownNode]] = field(default_factory=dict)
    """Node name -> node object and its decoded form, which is decoded again only when the object changes."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._windows = Windows(self.measurements.oldest_seconds)

    async def run(self, api: Session, into: CollectorRegistry, interval_seconds: float) -> None:
        """Refresh until cancelled."""
        context = registry.ProviderContext(
            nodes=self._nodes,
            reports=self.cluster.reports,
            api=api,
            resources=self.cluster.resources,
            oldest_seconds=self.measurements.oldest_seconds,
            types=BOUNDED,
        )
        providers = [registry.build(spec, context) for spec in self.specs]
        counted = WatcherMetrics(into, [provider.name for provider in providers], self._windows, self.clock)
        into.register(FallbackCollector(self.plugins[0], self.cluster.vectors, self.clock))
        watcher = Watcher(
            providers,
            self._windows,
            clock=self.clock,
            expected=lambda: self.cluster.vectors.rows,
            database=self.database,
        )
        if await asyncio.to_thread(watcher.restore, self.measurements.oldest_seconds):
            self._changed.set()

        def refreshed(outcome: Refreshed) -> None:
            counted.observe(outcome)
            self._changed.set()

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(watcher.check())
                group.create_task(self._rewrite())
                group.create_task(watcher.run(interval_seconds, refreshed))
        finally:
            await watcher.close()

    def _nodes(self) -> dict[str, KnownNode]:
        nodes = {}
        for name, entry in self.cluster.entries.items():
            if entry.node is not None:
                cached = self._known.get(name)
                nodes[name] = cached if cached and cached[0] is entry.node else (entry.node, _read(entry.node))
        self._known = nodes
        return {name: node for name, (_object, node) in nodes.items()}

    async def _rewrite(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.to_thread(self.measurements.select, self._windows, self.clock())
            for count, entry in enumerate(list(self.cluster.entries.values()), start=1):
                if self.cluster.entries.get(entry.name) is entry:
                    self.cluster.vectors.about_to_change()
                    for plugin in self.plugins:
                        plugin.write(entry)
                if count % _ROWS_PER_TURN == 0:
                    await asyncio.sleep(0)
            self.measurements.confirm_rows()


def _read(node: pods.Node) -> KnownNode:
    try:
        return provider.known_node(node)
    except quantities.InvalidQuantity:
        return KnownNode(0, 0)
