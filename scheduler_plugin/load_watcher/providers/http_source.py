"""Base of the providers that read an HTTP server, and the names of hosts.

Monitoring services such as SignalFx and Datadog know hosts of many clusters: `HostFilter` selects those of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from component_base.http_client import HttpClient, Reach
from scheduler_plugin.load_watcher.providers.provider import ProviderFailed


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
