"""One server that a provider asks over HTTP: address, credentials, TLS and bounds in one place.

Whatever goes wrong is a ProviderFailed that names the address: an answer must come whole within the time-out and the
largest size, so that a server that drips or pours holds up nobody. Proxies of the environment are used, as these
servers may be outside of the cluster; redirects are not followed, so that a token goes to no other server.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from scheduler_plugin.load_watcher.providers.provider import ProviderFailed

_LONGEST_TEXT: Final = 300
_LARGEST_ANSWER_BYTES: Final = 64 << 20  # 5,000 nodes are a tenth of it
_CONNECTIONS: Final = 4


@dataclass(frozen=True, slots=True)
class Reach:
    """How to reach a server. Certificates are checked against `ca_file`, or the system's authorities."""

    address: str
    headers: Mapping[str, str]
    timeout_seconds: float
    """For a whole answer."""
    insecure_skip_verify: bool = False
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, read to its end."""

    status_code: int
    content: bytes

    @property
    def text(self) -> str:
        """Body as text."""
        return self.content.decode(errors="replace")


class HttpSource:
    """Connections to one server, made when first needed."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._client: httpx2.AsyncClient | None = None

    async def send(self, method: str, path: str, *, accept: frozenset[int] = frozenset({200}), **request: Any) -> Reply:
        """Send a request and give the answer if its status is accepted. Raises ProviderFailed."""
        try:
            client = self._connected()
            async with asyncio.timeout(self._reach.timeout_seconds):
                reply = await _reply(client, method, self._url(path), request)
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise ProviderFailed(
                f"{self._url(path)} did not answer within {self._reach.timeout_seconds:g} s"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise ProviderFailed(f"{self._url(path)} cannot be reached: {error or type(error).__name__}") from error
        if reply.status_code not in accept:
            raise ProviderFailed(f"{self._url(path)} answered {reply.status_code}: {_one_line(reply.text)}")
        return reply

    async def answers(self, method: str, path: str) -> bool:
        """Whether a request is answered with 200 right now."""
        try:
            await self.send(method, path)
        except ProviderFailed:
            return False
        return True

    def decode(self, reply: Reply, path: str) -> Any:
        """JSON of an answer. Raises ProviderFailed."""
        try:
            return msgspec.json.decode(reply.content)
        except msgspec.DecodeError as error:
            text = f"{self._url(path)} answered what is no JSON ({error}): is the address right?"
            raise ProviderFailed(text) from error

    async def close(self) -> None:
        """End the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _url(self, path: str) -> str:
        return self._reach.address.rstrip("/") + path

    def _connected(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                headers=dict(self._reach.headers),
                timeout=self._reach.timeout_seconds,
                verify=_tls(self._reach),
                limits=httpx2.Limits(max_connections=_CONNECTIONS),
            )
        return self._client


async def _reply(client: httpx2.AsyncClient, method: str, url: str, request: Mapping[str, Any]) -> Reply:
    body = bytearray()
    async with client.stream(method, url, **request) as response:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _LARGEST_ANSWER_BYTES:
                raise ProviderFailed(f"{url} answered more than {_LARGEST_ANSWER_BYTES >> 20} MiB")
    return Reply(response.status_code, bytes(body))


def _tls(reach: Reach) -> ssl.SSLContext:
    if reach.ca_file and not Path(reach.ca_file).is_file():
        raise ProviderFailed(
            f"{reach.ca_file} is no file, want the certificates (PEM) that {reach.address} is signed by"
        )
    context = ssl.create_default_context(cafile=reach.ca_file or None)
    if reach.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_TEXT] or "(no text)"
