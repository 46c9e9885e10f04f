"""HTTP client of a provider: address, credentials, TLS and limits of one server.

Every failure is a ProviderFailed that names the address. A response must be complete within the time-out and within the
size limit, so a slow or an endless response blocks no other work. Proxies of the environment are used, because these
servers may be outside the cluster. Redirects are not followed, so a token is never sent to another server. Files of
tokens and of certificate authorities may be renewed or appear at any time: they are read when they are needed.

Monitoring services such as SignalFx and Datadog know hosts of many clusters: `HostFilter` selects those of one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from scheduler_plugin.load_watcher.providers.provider import ProviderFailed

_LONGEST_TEXT: Final = 300
_LARGEST_RESPONSE_BYTES: Final = 64 << 20  # 5,000 nodes need a tenth of it
_CONNECTIONS: Final = 4

_FileState = tuple[int, int]
"""Time of the last change, and inode."""


@dataclass(frozen=True, slots=True)
class HostFilter:
    """Selection of the hosts that belong to this cluster, in a service that knows many clusters."""

    name_suffix: str = ""
    cluster_name: str = ""


def node_name(host: str) -> str:
    """Return the name of a host up to the first dot."""
    return host.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Reach:
    """Address and credentials of a server. Certificates are checked against `ca_file`, or the system's authorities."""

    address: str
    headers: Callable[[], Mapping[str, str]]
    """Return the headers of a request, with the current token. Raises ProviderFailed if it cannot be read."""
    timeout_seconds: float
    """Limit for a complete response."""
    insecure_skip_verify: bool = False
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response."""

    status_code: int
    content: bytes

    @property
    def text(self) -> str:
        """Return the body as text."""
        return self.content.decode(errors="replace")


class HttpSource:
    """Connection pool of one server, opened at the first request."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._client: httpx2.AsyncClient | None = None
        self._ca_read: _FileState | None = None
        """State of `ca_file` when the client read it."""
        self._retired: list[httpx2.AsyncClient] = []
        """Clients with former certificate authorities, which may still have requests."""

    async def send(self, method: str, path: str, *, accept: frozenset[int] = frozenset({200}), **request: Any) -> Reply:
        """Send a request and return the response if its status is accepted. Raises ProviderFailed."""
        try:
            client = self._connected()
            async with asyncio.timeout(self._reach.timeout_seconds):
                reply = await self._reply(client, method, self._url(path), request)
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise ProviderFailed(
                f"{self._url(path)} did not respond within {self._reach.timeout_seconds:g} s"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise ProviderFailed(f"{self._url(path)} cannot be reached: {error or type(error).__name__}") from error
        if reply.status_code not in accept:
            raise ProviderFailed(f"{self._url(path)} returned {reply.status_code}: {_one_line(reply.text)}")
        return reply

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
            text = f"{self._url(path)} did not return JSON ({error}); check the address"
            raise ProviderFailed(text) from error

    async def close(self) -> None:
        """Close the connections."""
        clients = [*self._retired, *([self._client] if self._client else [])]
        self._client, self._retired = None, []
        for client in clients:
            await client.aclose()

    def _url(self, path: str) -> str:
        return self._reach.address.rstrip("/") + path

    async def _reply(self, client: httpx2.AsyncClient, method: str, url: str, request: Mapping[str, Any]) -> Reply:
        """Send a request; again if the token was renewed between reading and sending it."""
        headers = self._reach.headers()
        reply = await _reply(client, method, url, _with_headers(request, headers))
        if reply.status_code == HTTPStatus.UNAUTHORIZED:
            renewed = self._reach.headers()
            if renewed != headers:
                reply = await _reply(client, method, url, _with_headers(request, renewed))
        return reply

    def _connected(self) -> httpx2.AsyncClient:
        state = _file_state(self._reach.ca_file)
        if self._client is not None and state != self._ca_read:
            self._retired.append(self._client)
            self._client = None
        if self._client is None:
            self._ca_read = state
            self._client = httpx2.AsyncClient(
                timeout=self._reach.timeout_seconds,
                verify=_tls(self._reach),
                limits=httpx2.Limits(max_connections=_CONNECTIONS),
            )
        return self._client


def _with_headers(request: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    return {**request, "headers": {**headers, **request.get("headers", {})}}


def _file_state(path: str) -> _FileState | None:
    try:
        found = Path(path).stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino) if found else None


async def _reply(client: httpx2.AsyncClient, method: str, url: str, request: Mapping[str, Any]) -> Reply:
    body = bytearray()
    async with client.stream(method, url, **request) as response:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _LARGEST_RESPONSE_BYTES:
                raise ProviderFailed(f"{url} returned more than {_LARGEST_RESPONSE_BYTES >> 20} MiB")
    return Reply(response.status_code, bytes(body))


def _tls(reach: Reach) -> ssl.SSLContext:
    if reach.ca_file and not Path(reach.ca_file).is_file():
        raise ProviderFailed(
            f"{reach.ca_file} is not a file, want the PEM certificates of the authority that signed {reach.address}"
        )
    context = ssl.create_default_context(cafile=reach.ca_file or None)
    if reach.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_TEXT] or "(no text)"
