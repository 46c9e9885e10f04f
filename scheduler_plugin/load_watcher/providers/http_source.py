"""HTTP client of a provider, and the names of hosts.

Monitoring services such as SignalFx and Datadog know hosts of many clusters: `HostFilter` selects those of one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from component_base.http_client import HttpClient, Reply, RequestFailed
from scheduler_plugin.load_watcher.providers.provider import ProviderFailed


@dataclass(frozen=True, slots=True)
class HostFilter:
    """Selection of the hosts that belong to this cluster, in a service that knows many clusters."""

    name_suffix: str = ""
    cluster_name: str = ""


def node_name(host: str) -> str:
    """Return the name of a host up to the first dot."""
    return host.partition(".")[0]


class HttpSource(HttpClient):
    """Connection pool of one server, whose failures are those of a provider."""

    async def send(
        self, method: str, path: str, *, accept: Collection[int] | None = (HTTPStatus.OK,), **request: Any
    ) -> Reply:
        """Send a request and return the response if its status is accepted. Raises ProviderFailed."""
        try:
            return await super().send(method, path, accept=accept, **request)
        except RequestFailed as error:
            raise ProviderFailed(str(error)) from error

    async def is_ok(self, method: str, path: str) -> bool:
        """Return whether a request returns 200 now."""
        try:
            await self.send(method, path)
        except ProviderFailed:
            return False
        return True

    def decode(self, reply: Reply, path: str) -> Any:
        """Decode the JSON of a response. Raises ProviderFailed."""
        try:
            return msgspec.json.decode(reply.content)
        except msgspec.DecodeError as error:
            raise ProviderFailed(f"{self.shown}{path} did not return JSON ({error}); check the address") from error
