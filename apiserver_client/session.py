"""Send calls to the kube-apiserver over one pool of connections: returns bytes or raises `errors.ApiServerError`.

Proxies, CA bundles and .netrc of the environment are ignored: the HTTPS_PROXY of a pod is for addresses outside of the
cluster and would also capture the address of the apiserver. `proxy-url` of a kubeconfig is used. The protocol is
HTTP/1.1: each watch has a connection of its own, so a broken connection breaks one watch. Answers are uncompressed, as
for the components of the control plane: within a cluster gzip costs more than it saves.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import email.utils
import logging
import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

import httpcore2

from apiserver_client import authentication, connection, errors, sockets
from apiserver_client.kubeconfig import find as find_connection

logger = logging.getLogger(__name__)

Parameters = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time-outs in seconds.

    `request` bounds a whole call, at the apiserver's own bound of 60 s; `read` bounds the time between two reads.
    """

    connect: float = 5.0
    read: float = 30.0
    request: float = 60.0


# At most 32 connections, far more than the watches and parallel writes of any component. An idle one is closed before
# the apiserver closes it (90 s), yet lasts from one report to the next (60 s).
_MOST_CONNECTIONS: Final = 32
_MOST_IDLE_CONNECTIONS: Final = 8
_LONGEST_IDLE_SECONDS: Final = 75.0
_WARNINGS_REMEMBERED: Final = 64
_MOST_BYTES_AT_ONCE: Final = 2**17
_BEFORE_FIRST_BYTE: Final = "http11.send_request_headers.started"
"""Event of the library once a request has its connection. Nothing waits between it and the bytes on the wire."""
_LIBRARY_ERRORS: Final = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


class _Transport(NamedTuple):
    pool: httpcore2.AsyncConnectionPool
    network: sockets.Network
    tls: connection.Certificates


class Session:
    """An open session; made by `open_session`."""

    _date: Sequence[str] = ()
    _answered = 0.0
    """Monotonic time of that date."""

    def __init__(
        self,
        to: connection.Connection,
        transport: _Transport,
        user_agent: str,
        timeouts: Timeouts,
        may_write: Callable[[], bool],
    ) -> None:
        self.connection = to
        self._pool, self._network, self._tls = transport
        self._user_agent = user_agent
        self._timeouts = timeouts
        self._may_write = may_write
        self._authentication = authentication.choose(to)
        self._warned: set[str] = set()

    @property
    def server_time(self) -> dt.datetime | None:
        """Return the clock of the apiserver at its last answer, to the second; None where it has stated none."""
        try:
            return email.utils.parsedate_to_datetime(self._date[0]).astimezone(dt.UTC)
        except (IndexError, ValueError):
            return None

    @property
    def server_now(self) -> dt.datetime | None:
        """Return the clock of the apiserver now: of its last answer, and the time since; None where it stated none."""
        at_answer = self.server_time
        return at_answer and at_answer + dt.timedelta(seconds=time.monotonic() - self._answered)

    @property
    def server(self) -> str:
        """Return the URL of the apiserver."""
        return self.connection.server

    @property
    def namespace(self) -> str:
        """Return the namespace of the service account, or of the context."""
        return self.connection.namespace

    async def send(
        self,
        call: errors.Call,
        *,
        parameters: Parameters | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        most_bytes: float = math.inf,
    ) -> bytes:
        """Send a call; return the body of a 2xx answer, of at most `most_bytes`.

        Raises Unreachable, StatusError, NoCredentials, NotLeader, TooLarge.
        """
        self._check_leader(call)
        headers = {"Accept": accept} | ({"Content-Type": content_type} if body is not None else {})
        with self._library_errors(call):
            try:
                async with (
                    asyncio.timeout(self._timeouts.request),
                    self._answer(call, parameters, headers=headers, body=body) as answer,
                ):
                    if _is_success(answer):
                        content = await _body(call, answer, most_bytes)
                    else:
                        await answer.aread()
            except TimeoutError as error:
                raise errors.Unreachable(f"{call}: {self.server} did not answer in time") from error
        self._log_warnings(call, answer)
        if not _is_success(answer):
            raise _refusal(call, answer)
        return content

    @contextlib.asynccontextmanager
    async def stream(
        self, call: errors.Call, *, parameters: Parameters, silence_seconds: float, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a call with an endless answer; yield its bytes as they arrive. Leaving closes the connection.

        Raises StatusError at once, WatchTimeout when nothing arrives for `silence_seconds`, Unreachable when the
        connection breaks.
        """
        headers = {"Accept": accept}
        with self._library_errors(call, silence_seconds):
            async with contextlib.AsyncExitStack() as opened:
                try:  # a peer that sends its header or its refusal in drips is never silent
                    async with asyncio.timeout(self._timeouts.request + silence_seconds):
                        answer = await opened.enter_async_context(
                            self._answer(call, parameters, headers=headers, read_seconds=silence_seconds)
                        )
                        if not _is_success(answer):
                            await answer.aread()
                            raise _refusal(call, answer)
                except TimeoutError as error:
                    raise errors.Unreachable(f"{call}: {self.server} did not answer in time") from error
                chunked_body = _values(answer, b"transfer-encoding") == ["chunked"]
                yield _chunked_body(answer, silence_seconds) if chunked_body else answer.aiter_stream()

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        call: errors.Call,
        parameters: Parameters | None,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        read_seconds: float | None = None,
    ) -> AsyncIterator[httpcore2.Response]:
        """Yield an answer whose body is not read yet. After a 401 retry once, if there is a new token."""
        used = await self._authentication.credential()
        for last_attempt in (False, True):
            self._network.tls = self._tls.current(used)
            async with self._pool.stream(
                call.method,
                self._url(call, parameters),
                headers=self._headers(headers, used.header),
                content=body,
                extensions=self._extensions(call, read_seconds),
            ) as answer:
                self._date, self._answered = _values(answer, b"date"), time.monotonic()
                if answer.status == HTTPStatus.UNAUTHORIZED and not last_attempt:
                    await answer.aread()
                    other = await self._authentication.after_refusal(used)
                    if other is not None:
                        used = other
                        continue
                yield answer
                return

    def _url(self, call: errors.Call, parameters: Parameters | None) -> httpcore2.URL:
        query = "?" + urlencode(parameters, quote_via=quote) if parameters else ""
        try:
            return httpcore2.URL(self.server + call.path + query)  # the server of a kubeconfig may have a path
        except (ValueError, TypeError) as error:  # an invalid port, letters that are not ASCII
            raise self._unreachable(call, error) from error

    def _headers(self, of_call: Mapping[str, str], authorization: str | None) -> list[tuple[bytes, bytes]]:
        headers = {
            "Host": urlsplit(self.server).netloc,
            "User-Agent": self._user_agent,
            "Accept-Encoding": "identity",
            **of_call,
            **({"Authorization": authorization} if authorization else {}),
        }
        to = self.connection
        listed = list(headers.items())
        if to.impersonated_user or to.impersonated_groups:  # always a user: the apiserver refuses groups alone
            listed += [("Impersonate-User", to.impersonated_user)]
            listed += [("Impersonate-Group", group) for group in to.impersonated_groups]
        return [(name.encode(), text.encode()) for name, text in listed]

    def _check_leader(self, call: errors.Call) -> None:
        """Raise NotLeader for a write that this process may not send now."""
        if call.method != "GET" and not self._may_write():
            raise errors.NotLeader(f"{call}: write blocked: not the leader")

    def _extensions(self, call: errors.Call, read_seconds: float | None) -> dict[str, Any]:
        async def check_before_it_is_sent(event: str, _: Mapping[str, Any]) -> None:
            if event == _BEFORE_FIRST_BYTE:
                self._check_leader(call)

        connect = self._timeouts.connect
        timeout = {"connect": connect, "pool": connect, "read": read_seconds or self._timeouts.read}
        name = self.connection.tls_server_name
        return {
            "timeout": timeout,
            **({"sni_hostname": name} if name else {}),
            **({"trace": check_before_it_is_sent} if call.method != "GET" else {}),
        }

    @contextlib.contextmanager
    def _library_errors(self, call: errors.Call, silence_seconds: float | None = None) -> Iterator[None]:
        try:
            yield
        except httpcore2.ReadTimeout as error:
            if silence_seconds is None:
                raise errors.Unreachable(f"{call}: {self.server} did not answer in time") from error
            raise errors.WatchTimeout(f"{call}: {self.server} sent nothing for {silence_seconds:g} s") from error
        except _LIBRARY_ERRORS as error:
            raise self._unreachable(call, error) from error

    def _unreachable(self, call: errors.Call, error: Exception) -> errors.Unreachable:
        root = _root(error)
        if isinstance(root, ssl.SSLError) and not isinstance(root, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            reason = getattr(root, "verify_message", "") or root.reason or str(root)
            return errors.Untrusted(
                f"{call}: no TLS with {self.server}: {reason}; the certificates come from {self.connection.origin}"
            )
        what = str(root) or type(root).__name__
        return errors.Unreachable(f"{call}: cannot reach {self.server}: {what} ({self.connection.origin})")

    def _log_warnings(self, call: errors.Call, answer: httpcore2.Response) -> None:
        """Log each warning of the apiserver once: it drops a field that its CRD does not have, with only a warning."""
        for warning in _values(answer, b"warning"):
            if warning not in self._warned and len(self._warned) < _WARNINGS_REMEMBERED:
                self._warned.add(warning)
                logger.warning("%s: the apiserver warns: %s", call, warning)


@contextlib.asynccontextmanager
async def open_session(kubeconfig: str | os.PathLike[str] | None = None, *, user_agent: str) -> AsyncIterator[Session]:
    """Open a session with the credentials of `kubeconfig.find`. No request is sent yet.

    `user_agent` is "program/version", which the audit log of the apiserver shows. Raises NoCredentials.
    """
    async with connect(find_connection(kubeconfig), user_agent=user_agent) as session:
        yield session


@contextlib.asynccontextmanager
async def connect(
    to: connection.Connection,
    *,
    user_agent: str,
    timeouts: Timeouts | None = None,
    may_write: Callable[[], bool] = lambda: True,
) -> AsyncIterator[Session]:
    """Open a session for a connection. `may_write` is called before each write: at once, and again when it is sent.

    A write may wait for a credential and a connection in between, and is sent again after a 401.
    Raises NoCredentials when its certificates cannot be loaded.
    """
    tls = connection.Certificates(to)
    network = sockets.Network(tls.first)
    pool = httpcore2.AsyncConnectionPool(
        ssl_context=tls.first,
        proxy=_proxy(to),
        max_connections=_MOST_CONNECTIONS,
        max_keepalive_connections=_MOST_IDLE_CONNECTIONS,
        keepalive_expiry=_LONGEST_IDLE_SECONDS,
        network_backend=network,
    )
    async with pool:
        yield Session(to, _Transport(pool, network, tls), user_agent, timeouts or Timeouts(), may_write)


def _proxy(to: connection.Connection) -> httpcore2.Proxy | None:
    if not to.proxy_url:
        return None
    url = urlsplit(to.proxy_url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise errors.NoCredentials(
            f"{to.origin}: proxy-url is {to.proxy_url.rpartition('@')[2]!r}, want http://HOST:PORT or https://..."
        )
    user = (unquote(url.username), unquote(url.password or "")) if url.username else None
    return httpcore2.Proxy(to.proxy_url, auth=user)


async def _body(call: errors.Call, answer: httpcore2.Response, most_bytes: float) -> bytes:
    pieces, size = [], 0
    async for piece in answer.aiter_stream():
        pieces.append(piece)
        size += len(piece)
        if size > most_bytes:
            raise errors.TooLarge(f"{call}: seen an answer of more than {most_bytes} bytes")
    return b"".join(pieces)


async def _chunked_body(answer: httpcore2.Response, silence_seconds: float) -> AsyncIterator[bytes]:
    """Yield the body directly from the connection, all available bytes at once: a further chunk is almost free."""
    stream: sockets.Stream = answer.extensions["network_stream"]
    body = connection.Body()
    while not body.ended:
        received = await stream.read(_MOST_BYTES_AT_ONCE, silence_seconds)
        if not received:
            raise httpcore2.RemoteProtocolError("the connection was closed before the answer was complete")
        try:
            piece = body.decode(received)
        except connection.MalformedChunk as error:
            raise httpcore2.RemoteProtocolError(error) from error
        if piece:
            yield piece


def _is_success(answer: httpcore2.Response) -> bool:
    return HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES


def _values(answer: httpcore2.Response, name: bytes) -> list[str]:
    """Return the values of the headers of a name in lower case."""
    return [text.decode("latin-1") for key, text in answer.headers if key.lower() == name]


def _refusal(call: errors.Call, answer: httpcore2.Response) -> errors.StatusError:
    body = answer.content or answer.extensions.get("reason_phrase", b"")
    return errors.refusal(call, answer.status, body, next(iter(_values(answer, b"retry-after")), ""))


def _root(error: BaseException) -> BaseException:
    """Return the root cause of an error of the libraries: TLS, DNS or a refused connection.

    One library keeps the wrapped error as its argument only. The context is ignored: it may be an error of the caller.
    """
    while True:
        wrapped = error.args[0] if error.args else None
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        elif isinstance(wrapped, BaseException):
            error = wrapped
        else:
            return error
