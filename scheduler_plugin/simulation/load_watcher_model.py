"""The load watcher on simulated time: the product's provider of NodeMetrics, refreshed at even intervals.

Whatever providers a configuration names, the simulated reports are all there is to ask.
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
    """Keeps the readings of one set of parts; does nothing where no policy reads them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._windows = Windows(parts.readings.oldest_seconds)
        cluster = parts.cluster
        self._provider = NodeMetricProvider(
            cluster.reports,
            lambda: {
                name: known_nodes.known_node(each.node)
                for name, each in cluster.entries.items()
                if each.node is not None
            },
            cluster.resources,
        )

    def refresh(self, now: float) -> None:
        """Read every report, select anew, rewrite the rows."""
        if not self._parts.measured:
            return
        asyncio.run(self._refresh(now))
        self._parts.readings.take(self._windows, now)
        for entry in self._parts.cluster.entries.values():
            for policy in self._parts.measured:
                policy.write(entry)

    async def _refresh(self, now: float) -> None:
        for duration in DURATIONS_SECONDS:
            window = records.window_ending_at(duration, now)
            fetched = await self._provider.fetch(window)
            self._windows.store(Snapshot(int(now), window, self._provider.name, Data(dict(fetched.nodes))))
