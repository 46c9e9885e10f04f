"""HTTP client of one server outside the apiserver: address, credentials, TLS and limits.

Every failure is a RequestFailed that names the address, without credentials in it. A response must be complete within
the time-out and within the size limit, so a slow or an endless response blocks no other work. Redirects are not
followed, so a token is never sent to another server. Files of tokens and of certificate authorities may be renewed or
appear at any time: they are read when they are needed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx2

from api_types.wire_model import without_credentials

_LONGEST_TEXT: Final = 300
_CONNECTIONS: Final = 4

_FileState = tuple[int, int]
"""Time of the last change, and inode."""


class RequestFailed(Exception):
    """A server did not answer, or not as it should; the text names the address and what was seen."""


class TimedOut(RequestFailed):
    """No complete response came in time."""


class AnswerTooLarge(RequestFailed):
    """The response is larger than the limit."""


class BadCertificates(RequestFailed):
    """The file of certificate authorities cannot be used."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Address and credentials of a server. Certificates are checked against `ca_file`, or the system's authorities."""

    address: str
    headers: Callable[[], Mapping[str, str]]
    """Return the headers of a request, with the current token. May raise RequestFailed."""
    timeout_seconds: float
    """Limit for a complete response."""
    insecure_skip_verify: bool = False
    ca_file: str = ""
    largest_bytes: int = 64 << 20
    """Limit of a response; metrics of 5,000 nodes need a tenth of this one."""
    use_environment: bool = True
    """Whether variables may name a proxy and certificates; a server outside the cluster may need them."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response."""

    status_code: int
    content: bytes

    @property
    def text(self) -> str:
        """Return the body as text."""
        return self.content.decode(errors="replace")


class HttpClient:
    """Connection pool of one server, opened at the first request."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._client: httpx2.AsyncClient | None = None
        self._ca_read: _FileState | None = None
        """State of `ca_file` when the client read it."""
        self._retired: list[httpx2.AsyncClient] = []
        """Clients with former certificate authorities, which may still have requests."""

    @property
    def shown(self) -> str:
        """Return the address without credentials."""
        return without_credentials(self._reach.address)

    async def send(
        self, method: str, path: str, *, accept: Collection[int] | None = (HTTPStatus.OK,), **request: Any
    ) -> Reply:
        """Send a request and return the response if its status is accepted, None for any. Raises RequestFailed."""
        shown = f"{self.shown.rstrip('/')}{path}"
        try:
            client = self._connected()
            async with asyncio.timeout(self._reach.timeout_seconds):
                reply = await self._reply(client, method, self._reach.address.rstrip("/") + path, request)
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise TimedOut(f"{shown} did not respond within {self._reach.timeout_seconds:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            text = without_credentials(str(error)) or type(error).__name__
            raise RequestFailed(f"{shown} cannot be reached: {text}") from error
        if accept is not None and reply.status_code not in accept:
            raise RequestFailed(f"{shown} returned {reply.status_code}: {one_line(reply.text)}")
        return reply

    async def close(self) -> None:
        """Close the connections."""
        clients = [*self._retired, *([self._client] if self._client else [])]
        self._client, self._retired = None, []
        for client in clients:
            await client.aclose()

    async def _reply(self, client: httpx2.AsyncClient, method: str, url: str, request: Mapping[str, Any]) -> Reply:
        """Send a request; again if the token was renewed between reading and sending it."""
        headers = self._reach.headers()
        reply = await self._read(client, method, url, _with_headers(request, headers))
        if reply.status_code == HTTPStatus.UNAUTHORIZED:
            renewed = self._reach.headers()
            if renewed != headers:
                reply = await self._read(client, method, url, _with_headers(request, renewed))
        return reply

    async def _read(self, client: httpx2.AsyncClient, method: str, url: str, request: Mapping[str, Any]) -> Reply:
        body, limit = bytearray(), self._reach.largest_bytes
        async with client.stream(method, url, **request) as response:
            async for part in response.aiter_bytes():
                body += part
                if len(body) > limit:
                    size = f"{limit >> 20} MiB" if limit >> 20 else f"{limit >> 10} KiB"
                    raise AnswerTooLarge(f"{without_credentials(url)} returned more than {size}")
        return Reply(response.status_code, bytes(body))

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
                trust_env=self._reach.use_environment,
                follow_redirects=False,
            )
        return self._client


def bearer(token_file: str) -> Mapping[str, str]:
    """Return the header with the token of a file, read each time; none without one. Raises RequestFailed."""
    if not token_file:
        return {}
    try:
        token = Path(token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise RequestFailed(f"{token_file}: {reason}; want a readable file with a token") from None
    if not token.isascii() or not token.isprintable():
        raise RequestFailed(f"{token_file}: want one line of printable ASCII")
    return {"Authorization": f"Bearer {token}"}


def _with_headers(request: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    return {**request, "headers": {**headers, **request.get("headers", {})}}


def _file_state(path: str) -> _FileState | None:
    try:
        state = Path(path).stat() if path else None
    except OSError:
        return None
    return (state.st_mtime_ns, state.st_ino) if state else None


def _tls(reach: Reach) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=reach.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise BadCertificates(
            f"{reach.ca_file}: {error}; want the PEM certificates of the authority that signed "
            f"{without_credentials(reach.address)}"
        ) from error
    if reach.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def one_line(text: str) -> str:
    """Return the begin of a text of a server in one line."""
    return " ".join(text.split())[:_LONGEST_TEXT] or "(no text)"
