"""Serve the plugin inside kube-scheduler on a Unix socket.

Each profile of kube-scheduler has a connection of its own, which shows it all pods, also those of the other profiles. A
new connection takes the place of the last of its profile, whose kube-scheduler has ended or given it up. What the
connection shows and asks is handled in its order, in one turn of the event loop for each piece that is read, at most 64
KiB: an answer takes less than a millisecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

import msgspec

from scheduler_plugin.kube_scheduler import frames
from scheduler_plugin.kube_scheduler.answers import Answers, UnknownPod
from scheduler_plugin.kube_scheduler.frames import BadFrame, Frame, FrameBuffer, Kind, Reader
from scheduler_plugin.kube_scheduler.refused_pods import RefusedPods

log = logging.getLogger(__name__)

_OWNER_ONLY: Final = 0o600
_ROUND_SECONDS: Final = 0.05
"""A pod is woken within this time after a node began to pass."""
_WAKING_SHARE: Final = 8
"""Choosing pods takes at most one part in so many of a core, however many different pods a tenant lets wait."""
_MOST_UNSENT_BYTES: Final = 16 * 2**20
"""A plugin that reads nothing is given up; a table of 15,000 nodes takes a megabyte."""


class CannotServe(Exception):
    """The socket cannot be used; the message states why."""


@dataclass(eq=False)
class Profile:
    """One profile; with the name "", that of any kube-scheduler."""

    name: str
    answers: Answers
    refused: RefusedPods
    unsynced: Callable[[], Sequence[str]]
    """Names the watches that are not ready."""
    connection: _Connection | None = None
    served: str = ""
    """The name that kube-scheduler has for it."""


@dataclass(eq=False)
class PluginServer:
    """Server of the profiles of one kube-scheduler; `observe` gets the seconds of questions."""

    path: Path
    profiles: Sequence[Profile]
    _: KW_ONLY
    observe: Callable[[str, float], None]
    clock: Callable[[], float] = time.time
    _server: asyncio.Server | None = None

    @property
    def is_synced(self) -> bool:
        """Return whether kube-scheduler is connected, and has shown all pods to each profile that it has."""
        connections = [profile.connection for profile in self.profiles if profile.connection is not None]
        return bool(connections) and all(connection.is_synced for connection in connections)

    async def start(self) -> None:
        """Listen. Raises CannotServe."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(listener.fileno(), _OWNER_ONLY)  # the file has the mode from its first moment on
            self.path.unlink(missing_ok=True)
            listener.bind(str(self.path))
            self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Connection(self), sock=listener)
        except OSError as error:
            listener.close()
            raise CannotServe(f"cannot listen on {self.path}: {error}; want a writable folder") from error

    async def stop(self) -> None:
        """Close the socket and the connection."""
        if self._server is not None:
            self._server.close()
        for profile in self.profiles:
            if profile.connection is not None:
                profile.connection.close("the process ends")
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    async def wake(self) -> None:
        """Send the pods that pass now, and whether questions are answered, until cancelled."""
        spent = 0.0
        while True:
            await asyncio.sleep(max(_ROUND_SECONDS, spent * (_WAKING_SHARE - 1)))
            began = time.thread_time()
            for profile in self.profiles:
                if (connection := profile.connection) is not None and connection.is_synced:
                    connection.send_ready(is_ready=not profile.unsynced())
                    await self._wake(profile, connection)
            spent = time.thread_time() - began

    async def _wake(self, profile: Profile, connection: _Connection) -> None:
        refused = profile.refused
        if not len(refused) or not refused.begins_round(time.monotonic()):
            return
        try:
            for pod in refused.choose(self.clock(), time.monotonic()):
                if pod is not None and connection is profile.connection:
                    connection.send(frames.wake([pod.uid]))
                await asyncio.sleep(0)  # a question waits for one pod at most
        except Exception:
            log.exception("cannot choose the refused pods to wake; trying again")

    # of the connection

    def replace(self, connection: _Connection, hello: frames.Hello) -> Profile:
        """Serve a connection that has introduced itself, in place of the last one of its profile. Raises BadFrame."""
        profile = self._find(hello.profile)
        if profile.connection is not None:
            profile.connection.close("another kube-scheduler has connected")
        profile.connection, profile.served = connection, hello.profile
        profile.answers.begin()
        nodes = profile.answers.nodes
        nodes.renamed()  # the table has all of them
        table = frames.table(nodes.generation, ((row, name) for name, row in nodes.rows.items()))
        connection.send(frames.welcome(profile.answers.reasons()) + table)
        log.info("kube-scheduler 1.%s connected, profile %s", hello.minor, hello.profile)
        return profile

    def _find(self, name: str) -> Profile:
        for profile in self.profiles:
            if profile.name == name or (not profile.name and (profile.connection is None or profile.served == name)):
                return profile
        configured = ", ".join(profile.name or profile.served for profile in self.profiles)
        raise BadFrame(
            f"profile {name!r} is not served, but {configured}; want it in profiles of the scheduler plugin's "
            "configuration, by schedulerName"
        )

    def lost(self, profile: Profile, connection: _Connection) -> None:
        """Forget a connection. What is reserved counts until the next one has shown all pods."""
        if profile.connection is connection:
            profile.connection = None
            profile.answers.end()
            log.warning("the connection of kube-scheduler has ended, profile %s", profile.served)

    def handle(self, profile: Profile, connection: _Connection, received: Frame) -> None:
        """Handle one frame. Raises BadFrame, UnknownPod, msgspec.DecodeError."""
        reader, now, answers = Reader(received.payload), self.clock(), profile.answers
        match received.kind:
            case Kind.ASK:
                self._ask(answers, connection, reader.text(), received.number, now)
            case Kind.CHECK:
                began = time.perf_counter()
                code = answers.check(reader.text(), reader.u32(), reader.texts(), now)
                connection.send(frames.frame(Kind.CODE, bytes([code]), received.number))
                self.observe("check", time.perf_counter() - began)
            case Kind.SYNCED:
                answers.synced()
                connection.is_synced = True
                connection.send_ready(is_ready=not profile.unsynced())
            case Kind.POD:
                if uid := answers.show(reader.rest(), now):
                    connection.send(frames.wake([uid]))
            case Kind.REFUSED:
                self._refuse(answers, connection, reader.text(), reader.u32(), reader.rest())
            case _:
                self._notice(answers, received.kind, reader, now)
        reader.end()

    @staticmethod
    def _notice(answers: Answers, kind: Kind, reader: Reader, now: float) -> None:
        match kind:
            case Kind.RESERVE:
                answers.reserve(reader.text(), reader.text(), now)
            case Kind.UNRESERVE:
                answers.unreserve(reader.text(), now)
            case Kind.GONE:
                answers.gone(reader.text(), reader.text())
            case _:
                raise BadFrame(f"a frame {kind.name} behind HELLO, want one that kube-scheduler sends")

    def _ask(self, answers: Answers, connection: _Connection, uid: str, number: int, now: float) -> None:
        began = time.perf_counter()
        answer = answers.ask(uid, now)
        renamed = answers.nodes.renamed()
        table = frames.table(answer.generation, renamed.items()) if renamed else b""
        connection.send(table + frames.answer(answer, number))
        self.observe("ask", time.perf_counter() - began)

    @staticmethod
    def _refuse(answers: Answers, connection: _Connection, uid: str, generation: int, bits: bytes) -> None:
        if generation == answers.nodes.generation:
            answers.refuse(uid, bits)
        else:  # its rows may be those of other nodes by now
            connection.send(frames.wake([uid]))


class _Connection(asyncio.Protocol):
    """One kube-scheduler."""

    def __init__(self, server: PluginServer) -> None:
        self._server = server
        self._buffer = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self._profile: Profile | None = None
        self._is_ready: bool | None = None
        self.is_synced = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # see asyncio.Protocol
        """End. A frame that is not complete is dropped."""
        self._transport = None
        if self._profile is not None:
            self._server.lost(self._profile, self)

    def data_received(self, data: bytes) -> None:
        """Handle the frames that the bytes complete; close the connection at the first that is wrong."""
        try:
            for frame in self._buffer.take(data):
                if self._profile is not None:
                    self._server.handle(self._profile, self, frame)
                elif frame.kind is Kind.HELLO:
                    self._profile = self._server.replace(self, frames.read_hello(frame.payload))
                else:
                    raise BadFrame(f"{frame.kind.name} as the first frame, want HELLO")  # noqa: TRY301
        except (BadFrame, UnknownPod, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.error("closing the connection of kube-scheduler: %s", error)  # noqa: TRY400  # the message is complete
            self.close(str(error))
        except Exception:
            log.exception("unexpected error, closing the connection of kube-scheduler")
            self.close("internal error, see the log of the scheduler plugin")

    def send(self, data: bytes) -> None:
        """Send frames, unless the connection has ended."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > _MOST_UNSENT_BYTES:
            log.error("kube-scheduler reads nothing: %d MiB are unsent, closing", _MOST_UNSENT_BYTES >> 20)
            self._transport.abort()

    def send_ready(self, *, is_ready: bool) -> None:
        """Send whether questions are answered, where that has changed."""
        if is_ready != self._is_ready:
            self._is_ready = is_ready
            self.send(frames.frame(Kind.READY, bytes([is_ready])))

    def close(self, why: str) -> None:
        """Close the connection, and state why."""
        if self._transport is not None and not self._transport.is_closing():
            self.send(frames.frame(Kind.CLOSING, frames.text(why)))
            self._transport.close()
