"""Interface of a provider of measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from component_base.http_client import RequestFailed
from scheduler_plugin.load_watcher.records import NodeMetrics, Window

ProviderFailed = RequestFailed
"""Nothing was delivered; the message names the address, the observed and the expected result."""


class Fetched(NamedTuple):
    """Result of one fetch: the nodes, and the parts that failed. A failed part never affects the other parts."""

    nodes: Mapping[str, NodeMetrics]
    """By Kubernetes node name; may be empty. A node with a window of its own was not sampled over the requested one."""
    problems: Sequence[str] = ()
    """One line for each query or node without a usable result."""


class Provider(Protocol):
    """Source of measurements. Every method can be called at any time and again; no method keeps relevant state."""

    name: str
    """Name in the configuration and `source` of the snapshots."""
    has_deviation: bool
    """Whether every AVG comes with an STD: a resource without it is then incomplete. Else a missing STD counts as 0."""

    async def check(self) -> Sequence[str]:
        """Check the source once, at start, and return one line for each problem."""

    async def fetch(self, window: Window) -> Fetched:
        """Return the statistics of every node over the window. Raises ProviderFailed."""

    async def is_healthy(self) -> bool:
        """Return whether the source responds now."""

    async def close(self) -> None:
        """Close the connections."""
