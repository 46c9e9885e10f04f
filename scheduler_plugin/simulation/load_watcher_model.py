"""Load watcher on simulated time: the product's provider of NodeMetrics, refreshed at regular intervals.

The simulated reports are the only source, whichever providers the configuration lists.
"""

from __future__ import annotations

import asyncio
from typing import Final

from scheduler_plugin.assembly import Parts
from scheduler_plugin.load_watcher import known_nodes, records
from scheduler_plugin.load_watcher.providers.node_metric import NodeMetricProvider
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Data, Snapshot
from scheduler_plugin.load_watcher.windows import Windows

REFRESH_SECONDS: Final = 30.0


class LoadWatcherModel:
    """Refreshes the measurements of one set of parts; does nothing if no plugin reads them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._windows = Windows(parts.measurements.oldest_seconds)
        cluster = parts.cluster
        self._provider = NodeMetricProvider(
            cluster.reports,
            lambda: {
                name: known_nodes.known_node(entry.node)
                for name, entry in cluster.entries.items()
                if entry.node is not None
            },
            cluster.resources,
            parts.measurements.oldest_seconds,
        )

    def refresh(self, now: float) -> None:
        """Read every report, select the measurements and rewrite the rows."""
        if not self._parts.measured:
            return
        asyncio.run(self._refresh(now))
        self._parts.measurements.select(self._windows, now)
        for entry in self._parts.cluster.entries.values():
            for plugin in self._parts.measured:
                plugin.write(entry)
        self._parts.measurements.confirm_rows()

    async def _refresh(self, now: float) -> None:
        for duration in DURATIONS_SECONDS:
            window = records.window_ending_at(duration, now)
            fetched = await self._provider.fetch(window)
            self._windows.store(Snapshot(int(now), window, self._provider.name, Data(dict(fetched.nodes))))
