"""Another load watcher (`watcherAddress`): upstream's or ours, read as upstream's client reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec
from scheduler_plugin.load_watcher.providers.http_source import HttpSource, Reach
from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.records import Window

OLDEST_SECONDS: Final = 300.0
"""An answer about a window that ended earlier is refused: upstream's watcher serves its last one for ever (B2)."""
_TIMEOUT_SECONDS: Final = 55.0


class LoadWatcherProvider:
    """Asks one watcher. Upstream's knows one window only and ignores which one was asked for."""

    name = provider_spec.LOAD_WATCHER

    def __init__(self, address: str) -> None:
        self._address = address
        self._source = HttpSource(Reach(address, {"Content-Type": "application/json"}, _TIMEOUT_SECONDS))

    async def check(self) -> Sequence[str]:
        """Tell when it does not answer."""
        return () if await self.is_healthy() else (f"{self._address}/watcher/health does not answer with 200",)

    async def fetch(self, window: Window) -> Fetched:
        """What it serves now. Raises ProviderFailed."""
        response = await self._source.send("GET", "/watcher", params={"window": window.duration})
        return read(response.content, f"{self._address}/watcher", window.end)

    async def is_healthy(self) -> bool:
        """Whether it says so itself."""
        return await self._source.answers("GET", "/watcher/health")

    async def close(self) -> None:
        """End the connection."""
        await self._source.close()


def read(body: bytes, address: str, now: float) -> Fetched:
    """Nodes of a document that have metrics, and its end. Raises ProviderFailed for a broken or an old one."""
    try:
        snapshot = records.decode(body)
    except msgspec.DecodeError as error:
        raise ProviderFailed(f"{address} answered what is no load watcher document: {error}") from error
    age = now - snapshot.window.end
    if snapshot.window.end and age > OLDEST_SECONDS:
        raise ProviderFailed(f"{address} serves a window that ended {age:.0f} s ago, want {OLDEST_SECONDS:.0f} at most")
    nodes = {name: node for name, node in snapshot.data.nodes.items() if node.metrics}
    return Fetched(nodes, end=snapshot.window.end or None)
