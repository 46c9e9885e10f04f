"""What a provider of measurements is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from scheduler_plugin.load_watcher.records import NodeMetrics, Window


class ProviderFailed(Exception):
    """Nothing came; the message names the address, what was seen and what was wanted."""


class Fetched(NamedTuple):
    """What came, and what did not: a part that failed never costs the parts that did not."""

    nodes: Mapping[str, NodeMetrics]
    """By Kubernetes node name; may be empty."""
    problems: Sequence[str] = ()
    """One line for each query or node that gave nothing usable."""
    end: int | None = None
    """When it ends, seconds since the epoch, where the source tells; None: with the window asked for."""


class Provider(Protocol):
    """One source of measurements. Methods may be called again at any time; none keeps state that matters."""

    name: str
    """Name in the configuration, and `source` of its snapshots."""

    async def check(self) -> Sequence[str]:
        """Look once, at start, whether the source delivers what is wanted: one line for each thing that does not."""

    async def fetch(self, window: Window) -> Fetched:
        """Statistics of every node over the window. Raises ProviderFailed."""

    async def is_healthy(self) -> bool:
        """Whether the source answers right now."""

    async def close(self) -> None:
        """End its connections."""
