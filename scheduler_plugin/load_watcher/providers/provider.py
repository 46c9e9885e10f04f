"""Interface of a provider of measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from component_base.http_client import HttpClient, Reach, RequestFailed
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


@dataclass(frozen=True, slots=True)
class HostFilter:
    """Selection of the hosts that belong to this cluster, in a service that knows many clusters."""

    name_suffix: str = ""
    cluster_name: str = ""


def node_name(host: str) -> str:
    """Return the name of a host up to the first dot."""
    return host.partition(".")[0]


class HttpProvider:
    """Provider that reads one server, which is healthy while `health_path` returns 200."""

    health_path: str

    def __init__(self, reach: Reach) -> None:
        self._client = HttpClient(reach)
        self._address = reach.address

    async def check(self) -> Sequence[str]:
        """Return a problem if the server is not healthy."""
        try:
            await self._client.send("GET", self.health_path)
        except ProviderFailed as error:
            return (str(error),)
        return ()

    async def is_healthy(self) -> bool:
        """Return whether the server is healthy now."""
        return not await HttpProvider.check(self)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _json(self, method: str, path: str, **request: Any) -> Any:
        """Return the JSON of a response with status 200. Raises ProviderFailed."""
        reply = await self._client.send(method, path, **request)
        try:
            return msgspec.json.decode(reply.content)
        except msgspec.DecodeError as error:
            raise ProviderFailed(
                f"{self._client.shown}{path} did not return JSON ({error}); check the address"
            ) from error
