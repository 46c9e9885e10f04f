"""Serve the verbs to kube-scheduler over HTTP, by aiohttp."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from component_base import listening
from scheduler_plugin.extender.tls import TlsFiles, UnusableCertificate
from scheduler_plugin.extender.verbs import BadExtenderCall

log = logging.getLogger(__name__)

Verb = Callable[[bytes, float], bytes]
"""(body, Unix time) -> response. Raises BadExtenderCall."""

MOST_BODY_BYTES: Final = 8 * 2**20
"""15,000 node names of 253 characters take 3.7 MiB."""
_CHECK_SECONDS: Final = 60.0  # a kubelet takes about as long to mount a renewed Secret
_KEPT_SECONDS: Final = 120.0  # kube-scheduler closes an idle connection after 90 s
_GRACE_SECONDS: Final = 1.0


@dataclass(eq=False)
class ExtenderServer:
    """Server of the verbs by name.

    `unsynced` names the watches that are not ready, `observe` gets status and seconds of each call.
    """

    address: str
    asked_port: int
    """The port to listen on; 0 is any."""
    verbs: Mapping[str, Verb]
    _: KW_ONLY
    unsynced: Callable[[], Sequence[str]] = list
    observe: Callable[[str, HTTPStatus, float], None] = lambda *_: None
    tls: TlsFiles | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        application = web.Application(client_max_size=MOST_BODY_BYTES)
        for name, verb in self.verbs.items():
            application.router.add_post(f"/{name}", functools.partial(self._answer, name, verb))
        self._runner = web.AppRunner(
            application,
            handle_signals=False,
            access_log=None,
            keepalive_timeout=_KEPT_SECONDS,
            shutdown_timeout=_GRACE_SECONDS,
        )
        self._listener: socket.socket | None = None
        self._accepting: tuple[socket.socket, web.SockSite] | None = None

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    async def start(self) -> None:
        """Listen. Raises CannotListen, UnusableCertificate."""
        await self._runner.setup()
        fix = "stop the process that uses it, or set another --extender-port, also in kube-scheduler's urlPrefix"
        self._listener = listening.listen(self.address, self.asked_port, purpose="kube-scheduler", fix=fix)
        await self._open(self._listener)

    async def stop(self) -> None:
        """Finish the calls that go on, and close all connections."""
        await self._runner.cleanup()
        if self._listener is not None:
            self._listener.close()

    async def follow_certificate(self) -> None:
        """Serve new connections with renewed TLS files, until cancelled."""
        assert self.tls is not None
        assert self._listener is not None
        loaded = self.tls.changed_at()
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            if (changed := self.tls.changed_at()) == loaded:
                continue
            try:
                await self._open(self._listener)
            except UnusableCertificate as error:
                log.error("%s; keeping the last certificate", error)  # noqa: TRY400  # a traceback adds nothing
            else:
                loaded = changed
                log.info("loaded the renewed certificate %s", self.tls.certificate)

    async def _open(self, listener: socket.socket) -> None:
        """Accept connections with the present TLS files; those that are open stay."""
        context = self.tls.load() if self.tls is not None else None
        before, accepts = self._accepting, listener.dup()
        self._accepting = accepts, web.SockSite(self._runner, accepts, ssl_context=context)
        await self._accepting[1].start()
        if before is not None:
            asyncio.get_running_loop().remove_reader(before[0])
            await asyncio.sleep(0.1)  # asyncio drops a connection that it has accepted for a server that is closed
            await before[1].stop()

    async def _answer(self, name: str, verb: Verb, request: web.Request) -> web.Response:
        body = await request.read()
        began = time.perf_counter()
        response = self._call(name, verb, body)
        self.observe(name, HTTPStatus(response.status), time.perf_counter() - began)
        return response

    def _call(self, name: str, verb: Verb, body: bytes) -> web.Response:
        if waiting_for := self.unsynced():
            text = f"not ready: waiting for the first list of {', '.join(waiting_for)}"
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=text)
        try:
            return web.Response(body=verb(body, self.clock()), content_type="application/json")
        except BadExtenderCall as error:
            return web.Response(status=HTTPStatus.BAD_REQUEST, text=str(error))
        except Exception:
            log.exception("%s: unexpected error", name)
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text="internal error, see the log")
