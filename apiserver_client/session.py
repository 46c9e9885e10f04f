"""One pooled HTTP session with the kube-apiserver: sends calls, gives bytes or raises an `errors.ApiServerError`.

Proxies, CA bundles and .netrc of the environment are not used: a pod's HTTPS_PROXY is meant for the outside world and
would swallow the cluster's own address; `proxy-url` of a kubeconfig is honoured. HTTP/1.1, so that each watch has a
connection of its own and one broken connection breaks one watch. Answers come uncompressed, as the control plane's own
components ask for them: on a cluster's network gzip costs more than it saves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass

import httpx2

from apiserver_client import authentication, connection, credentials, errors

logger = logging.getLogger(__name__)

Parameters = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long we wait, in seconds.

    `request` bounds a whole call, at the apiserver's own bound of 60 s; `read` bounds the time between two arrivals.
    """

    connect: float = 5.0
    read: float = 30.0
    request: float = 60.0

    def of_library(self, read: float | None = None) -> httpx2.Timeout:
        """In the terms of the library; `read` overrides ours."""
        return httpx2.Timeout(read or self.read, connect=self.connect, pool=self.connect)


# At most 32 connections, far more than watches and parallel writes of any component; an idle one is dropped before the
# apiserver drops it (90 s), yet lives from one minutely report to the next.
_LIMITS = httpx2.Limits(max_connections=32, max_keepalive_connections=8, keepalive_expiry=75.0)
_WARNINGS_REMEMBERED = 64


class Session:
    """An open session; made by `open_session`."""

    def __init__(
        self, to: connection.Connection, client: httpx2.AsyncClient, timeouts: Timeouts, may_write: Callable[[], bool]
    ) -> None:
        self.connection = to
        self._client = client
        self._timeouts = timeouts
        self._may_write = may_write
        self._warned: set[str] = set()

    @property
    def server(self) -> str:
        """URL of the apiserver."""
        return self.connection.server

    @property
    def namespace(self) -> str:
        """Namespace of the service account, or of the context."""
        return self.connection.namespace

    async def send(
        self,
        call: errors.Call,
        *,
        parameters: Parameters | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Send a call, give the body of a good answer. Raises Unreachable, Refused, NoCredentials, Withheld."""
        headers = {"Accept": accept} | ({"Content-Type": content_type} if body is not None else {})
        request = self._request(call, parameters, self._timeouts.of_library(), content=body, headers=headers)
        if call.method != "GET" and not self._may_write():
            raise errors.Withheld(f"{call}: not sent, this process may not write now")
        with self._faults_of(call):
            try:
                async with asyncio.timeout(self._timeouts.request):
                    response = await self._client.send(request)
            except TimeoutError as error:
                raise errors.Unreachable(f"{call}: {self.server} did not answer in time") from error
        self._pass_on_warnings(call, response)
        if not response.is_success:
            raise _refusal(call, response)
        return response.content

    @contextlib.asynccontextmanager
    async def stream(
        self, call: errors.Call, *, parameters: Parameters, silence_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a call whose answer does not end; gives its bytes as they come. Leaving closes the connection.

        Raises Refused at once, Silent when nothing came for `silence_seconds`, Unreachable when the connection breaks.
        """
        request = self._request(call, parameters, self._timeouts.of_library(read=silence_seconds))
        with self._faults_of(call, silence_seconds):
            response = await self._client.send(request, stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(call, response)
                yield response.aiter_raw()
            finally:
                await response.aclose()

    def _request(
        self,
        call: errors.Call,
        parameters: Parameters | None,
        timeout: httpx2.Timeout,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Request:
        name = self.connection.tls_server_name
        return self._client.build_request(
            call.method,
            self.server + call.path,  # a kubeconfig's server may have a path of its own
            params=dict(parameters or {}),
            content=content,
            headers=headers,
            timeout=timeout,
            extensions={"sni_hostname": name} if name else None,
        )

    @contextlib.contextmanager
    def _faults_of(self, call: errors.Call, silence_seconds: float | None = None) -> Iterator[None]:
        try:
            yield
        except httpx2.ReadTimeout as error:
            if silence_seconds is None:
                raise errors.Unreachable(f"{call}: {self.server} did not answer in time") from error
            raise errors.Silent(f"{call}: {self.server} sent nothing for {silence_seconds:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
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

    def _pass_on_warnings(self, call: errors.Call, response: httpx2.Response) -> None:
        """Log what the apiserver warns of, once: a field its CRD does not know is dropped in silence otherwise."""
        for warning in response.headers.get_list("warning"):
            if warning not in self._warned and len(self._warned) < _WARNINGS_REMEMBERED:
                self._warned.add(warning)
                logger.warning("%s: the apiserver warns: %s", call, warning)


@contextlib.asynccontextmanager
async def open_session(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    user_agent: str,
    timeouts: Timeouts | None = None,
) -> AsyncIterator[Session]:
    """Open a session with the credentials that `credentials.find` finds. No request is sent yet.

    `user_agent` is "program/version", as the apiserver's audit log shows it. Raises NoCredentials.
    """
    async with connect(credentials.find(kubeconfig, context), user_agent=user_agent, timeouts=timeouts) as session:
        yield session


@contextlib.asynccontextmanager
async def connect(
    to: connection.Connection,
    *,
    user_agent: str,
    timeouts: Timeouts | None = None,
    may_write: Callable[[], bool] = lambda: True,
) -> AsyncIterator[Session]:
    """Open a session over a connection at hand. `may_write` is asked before each call that changes something.

    Raises NoCredentials when its certificates cannot be loaded.
    """
    timeouts = timeouts or Timeouts()
    client = httpx2.AsyncClient(
        verify=to.tls_context() or False,
        auth=authentication.of(to),
        headers={"User-Agent": user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
        limits=_LIMITS,
        proxy=to.proxy_url,
        trust_env=False,
        follow_redirects=False,
    )
    async with client:
        yield Session(to, client, timeouts, may_write)


def _refusal(call: errors.Call, response: httpx2.Response) -> errors.Refused:
    body = response.content or response.reason_phrase.encode()
    return errors.refusal(call, response.status_code, body, response.headers.get("retry-after", ""))


def _root(error: BaseException) -> BaseException:
    """The error underneath: TLS, DNS or a refused connection, below what the libraries wrapped around it.

    One of them keeps the error it wraps as its argument only. Never the context: that may be the caller's own trouble.
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
