"""Serve the plugin inside kube-scheduler on a Unix socket.

One connection is served at a time: a new one takes the place of the last, whose kube-scheduler has ended or given it
up. What the connection shows and asks is handled in its order, in one turn of the event loop for each piece that is
read, at most 64 KiB: an answer takes less than a millisecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from scheduler_plugin.kube_scheduler import frames
from scheduler_plugin.kube_scheduler.answers import Answers, UnknownPod
from scheduler_plugin.kube_scheduler.frames import BadFrame, Frame, FrameBuffer, Kind, Reader
from scheduler_plugin.queueing.refused_pods import RefusedPods

log = logging.getLogger(__name__)

_OWNER_ONLY: Final = 0o600
_ROUND_SECONDS: Final = 0.05
"""A pod is woken within this time after a node began to pass."""
_MOST_UNSENT_BYTES: Final = 16 * 2**20
"""A plugin that reads nothing is given up; a table of 15,000 nodes takes a megabyte."""


class CannotServe(Exception):
    """The socket cannot be used; the message states why."""


class PluginServer:
    """Server of one profile."""

    def __init__(
        self,
        path: Path,
        answers: Answers,
        refused: RefusedPods,
        unsynced: Callable[[], Sequence[str]],
        *,
        observe: Callable[[str, float], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Serve a profile. `unsynced` names the watches that are not ready, `observe` gets the seconds of questions."""
        self._path = path
        self._answers = answers
        self._refused = refused
        self._unsynced = unsynced
        self._observe = observe
        self._clock = clock
        self._server: asyncio.Server | None = None
        self._connection: _Connection | None = None
        self._profile = ""

    @property
    def is_synced(self) -> bool:
        """Return whether a kube-scheduler is connected and has shown all pods."""
        return self._connection is not None and self._connection.is_synced

    async def start(self) -> None:
        """Listen. Raises CannotServe."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(listener.fileno(), _OWNER_ONLY)  # the file has the mode from its first moment on
            self._path.unlink(missing_ok=True)
            listener.bind(str(self._path))
            self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Connection(self), sock=listener)
        except OSError as error:
            listener.close()
            raise CannotServe(f"cannot listen on {self._path}: {error}; want a writable folder") from error

    async def stop(self) -> None:
        """Close the socket and the connection."""
        if self._server is not None:
            self._server.close()
        if self._connection is not None:
            self._connection.close("the process ends")
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    async def wake(self) -> None:
        """Send the pods that pass now, and whether questions are answered, until cancelled."""
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            connection = self._connection
            if connection is None or not connection.is_synced:
                continue
            connection.send_ready(is_ready=not self._unsynced())
            if not len(self._refused) or not self._refused.begins_round(time.monotonic()):
                continue
            try:
                for retry in self._refused.choose(self._clock(), time.monotonic()):
                    if retry is not None and connection is self._connection:
                        connection.send(frames.wake([retry.pod.uid]))
                    await asyncio.sleep(0)  # a question waits for one pod at most
            except Exception:
                log.exception("cannot choose the refused pods to wake; trying again")

    # of the connection

    def replace(self, connection: _Connection, hello: frames.Hello) -> None:
        """Serve a connection that has introduced itself, in place of the last one. Raises BadFrame."""
        if self._connection is not None and self._profile != hello.profile:
            raise BadFrame(f"profile {hello.profile!r}, want {self._profile!r}: each profile needs a socket of its own")
        if self._connection is not None:
            self._connection.close("another kube-scheduler has connected")
        self._connection, self._profile = connection, hello.profile
        self._answers.begin()
        table = self._answers.table
        connection.send(frames.welcome(self._answers.reasons()) + frames.table(table.generation, table.all()))
        log.info("kube-scheduler 1.%s connected, profile %s", hello.minor, hello.profile)

    def lost(self, connection: _Connection) -> None:
        """Forget a connection. What is reserved counts until the next one has shown all pods."""
        if self._connection is connection:
            self._connection = None
            self._answers.end()
            log.warning("the connection of kube-scheduler has ended")

    def handle(self, connection: _Connection, received: Frame) -> None:
        """Handle one frame. Raises BadFrame, UnknownPod, msgspec.DecodeError."""
        reader, now = Reader(received.payload), self._clock()
        match received.kind:
            case Kind.ASK:
                self._ask(connection, reader.text(), received.number, now)
            case Kind.CHECK:
                began = time.perf_counter()
                code = self._answers.check(reader.text(), reader.u32(), reader.texts(), now)
                connection.send(frames.frame(Kind.CODE, bytes([code]), received.number))
                self._observe("check", time.perf_counter() - began)
            case Kind.SYNCED:
                self._answers.synced()
                connection.is_synced = True
                connection.send_ready(is_ready=not self._unsynced())
            case Kind.POD:
                if uid := self._answers.show(reader.rest(), now):
                    connection.send(frames.wake([uid]))
            case Kind.REFUSED:
                self._refuse(connection, reader.text(), reader.u32(), reader.rest())
            case _:
                self._notice(received.kind, reader, now)
        reader.end()

    def _notice(self, kind: Kind, reader: Reader, now: float) -> None:
        match kind:
            case Kind.RESERVE:
                self._answers.reserve(reader.text(), reader.text(), now)
            case Kind.UNRESERVE:
                self._answers.unreserve(reader.text(), now)
            case Kind.BOUND:
                self._answers.bound(reader.text(), reader.text())
            case Kind.GONE:
                self._answers.gone(reader.text(), reader.text())
            case _:
                raise BadFrame(f"a frame {kind.name} behind HELLO, want one that kube-scheduler sends")

    def _ask(self, connection: _Connection, uid: str, number: int, now: float) -> None:
        began = time.perf_counter()
        answer = self._answers.ask(uid, now)
        changes = self._answers.table.changes()
        table = frames.table(answer.generation, changes) if changes else b""
        connection.send(table + frames.answer(answer, number))
        self._observe("ask", time.perf_counter() - began)

    def _refuse(self, connection: _Connection, uid: str, generation: int, bits: bytes) -> None:
        if generation == self._answers.table.generation:
            self._answers.refuse(uid, bits)
        else:  # its rows may be those of other nodes by now
            connection.send(frames.wake([uid]))


class _Connection(asyncio.Protocol):
    """One kube-scheduler."""

    def __init__(self, server: PluginServer) -> None:
        self._server = server
        self._buffer = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self._is_introduced = False
        self._is_ready: bool | None = None
        self.is_synced = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # see asyncio.Protocol
        """End. A frame that is not complete is dropped."""
        self._transport = None
        self._server.lost(self)

    def data_received(self, data: bytes) -> None:
        """Handle the frames that the bytes complete; close the connection at the first that is wrong."""
        try:
            for frame in self._buffer.take(data):
                if self._is_introduced:
                    self._server.handle(self, frame)
                elif frame.kind is Kind.HELLO:
                    self._server.replace(self, frames.read_hello(frame.payload))
                    self._is_introduced = True
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
