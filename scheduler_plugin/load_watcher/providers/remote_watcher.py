"""Another load watcher (`watcherAddress`), upstream's or this project's, read as upstream's client reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from component_base.http_client import Reach
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec
from scheduler_plugin.load_watcher.providers.provider import Fetched, HttpProvider, ProviderFailed
from scheduler_plugin.load_watcher.records import OLDEST_SECONDS, Window

TIMEOUT_SECONDS: Final = 55.0


def headers() -> dict[str, str]:
    """Return the headers of every request, those of upstream's client."""
    return {"Content-Type": "application/json"}


class LoadWatcherProvider(HttpProvider):
    """Client of one load watcher. Upstream's has a single window and ignores the `window` parameter.

    A window older than `oldest_seconds` is refused, because upstream's watcher serves its last snapshot without an age
    limit.
    """

    name = provider_spec.LOAD_WATCHER
    has_deviation = False
    health_path = "/watcher/health"

    def __init__(self, reach: Reach, oldest_seconds: float = OLDEST_SECONDS) -> None:
        super().__init__(reach)
        self._oldest_seconds = oldest_seconds

    async def check(self) -> Sequence[str]:
        """Return a problem if the health page does not return 200."""
        return () if await self.is_healthy() else (f"{self._address}/watcher/health did not return 200",)

    async def fetch(self, window: Window) -> Fetched:
        """Return the snapshot that the other watcher serves now. Raises ProviderFailed."""
        response = await self._client.send("GET", "/watcher", params={"window": window.duration})
        return read(response.content, f"{self._address}/watcher", window.end, self._oldest_seconds)


def read(body: bytes, address: str, now: float, oldest_seconds: float = OLDEST_SECONDS) -> Fetched:
    """Return the nodes of a document that have metrics or rejected ones, with their windows.

    Raises ProviderFailed if the document is malformed or its window ended more than `oldest_seconds` before `now`.
    """
    try:
        snapshot = records.decode(body)
    except msgspec.DecodeError as error:
        raise ProviderFailed(f"{address} did not return a load watcher document: {error}") from error
    age = now - snapshot.window.end
    if snapshot.window.end and age > oldest_seconds:
        raise ProviderFailed(f"{address} serves a window that ended {age:.0f} s ago, want {oldest_seconds:.0f} at most")
    nodes = {name: node for name, node in snapshot.data.nodes.items() if node.metrics or node.rejected}
    return Fetched(records.dated(nodes, snapshot.window) if snapshot.window.end else nodes)
