"""The socket serves one kube-scheduler of the same version, and closes at the first wrong frame."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugin.kube_scheduler import frames
from scheduler_plugin.kube_scheduler.frames import Frame, FrameBuffer, Kind, Reader
from scheduler_plugin.kube_scheduler.server import PluginServer, Profile
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.kube_scheduler import peer_frames
from tests.scheduler_plugin.kube_scheduler.test_answers import Inside


class Peer:
    """A connection as kube-scheduler has it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._buffer = FrameBuffer()
        self._frames: list[Frame] = []

    def send(self, *sent: bytes) -> None:
        self._writer.write(b"".join(sent))

    async def next(self, kind: Kind) -> Frame:
        """Return the next frame of a kind; those before it are dropped. Raises EOFError."""
        while True:
            while self._frames:
                frame = self._frames.pop(0)
                if frame.kind is kind:
                    return frame
            received = await asyncio.wait_for(self._reader.read(65536), 5)
            if not received:
                raise EOFError
            self._frames += self._buffer.take(received)

    async def closed_because(self) -> str:
        """Return why the connection was closed."""
        text = Reader((await self.next(Kind.CLOSING)).payload).text()
        with pytest.raises(EOFError):
            await self.next(Kind.WELCOME)
        return text

    async def end(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def pod(name: str, **fields: Any) -> bytes:
    return frames.frame(Kind.POD, json.dumps(factories.pod_document(name, **fields)).encode())


def about(kind: Kind, *texts: str, number: int = 0) -> bytes:
    return frames.frame(kind, frames.texts(texts), number)


HELLO, SYNCED = peer_frames.hello("koord-scheduler", "36"), frames.frame(Kind.SYNCED)


SOFTER = {"name": "LoadAwareScheduling", "args": {"usageThresholds": {"cpu": 95}}}


class Served:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.peers: list[Peer] = []
        self.inside, self.batch = Inside(), Inside(pluginConfig=[SOFTER])
        self.unsynced: list[str] = []
        self.observed: list[str] = []
        self.server = PluginServer(
            path,
            [
                Profile("batch", self.batch.answers, self.batch.parts.refused, lambda: self.unsynced),
                Profile("", self.inside.answers, self.inside.parts.refused, lambda: self.unsynced),
            ],
            observe=lambda question, _seconds: self.observed.append(question),
            clock=lambda: factories.NOW,
        )

    async def connect(self) -> Peer:
        self.peers.append(Peer(*await asyncio.open_unix_connection(str(self.path))))
        return self.peers[-1]


@contextlib.asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Served]:
    served = Served(path)
    await served.server.start()
    waking = asyncio.create_task(served.server.wake())
    try:
        yield served
    finally:
        waking.cancel()
        await served.server.stop()
        for peer in served.peers:
            await peer.end()


def run(path: Path, scenario: Callable[[Served], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serving(path / "plugin.sock") as served:
            await scenario(served)

    asyncio.run(main())


def test_a_pod_is_answered_after_the_table_of_its_generation(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert stat.S_IMODE(served.path.stat().st_mode) == 0o600
        peer = await served.connect()
        peer.send(HELLO, pod("web"), SYNCED)
        table = Reader((await peer.next(Kind.TABLE)).payload)
        generation = table.u32()
        assert {table.u32(): table.text(), table.u32(): table.text()} == {0: "n1", 1: "n2"}
        assert (await peer.next(Kind.READY)).payload == b"\1"
        served.inside.parts.cluster.node_changed(factories.node("n3"))
        peer.send(about(Kind.ASK, "uid-web", number=41))
        table = Reader((await peer.next(Kind.TABLE)).payload)
        assert (table.u32(), table.u32(), table.text()) == (generation + 1, 2, "n3")
        answer = await peer.next(Kind.ANSWER)
        assert answer.number == 41
        assert served.observed == ["ask"]
        assert peer_frames.read_answer(answer.payload).generation == generation + 1

    run(tmp_path, scenario)


def test_nothing_is_answered_before_the_watches_are_ready(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        served.unsynced = ["nodes"]
        peer = await served.connect()
        peer.send(HELLO, SYNCED)
        assert (await peer.next(Kind.READY)).payload == b"\0"
        served.unsynced = []
        assert (await peer.next(Kind.READY)).payload == b"\1"

    run(tmp_path, scenario)


def test_a_refused_pod_is_woken_by_a_report(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        served.inside.report("n2", "90")
        peer = await served.connect()
        peer.send(HELLO, pod("web"), SYNCED, about(Kind.ASK, "uid-web", number=1))
        answer = peer_frames.read_answer((await peer.next(Kind.ANSWER)).payload)
        payload = frames.text("uid-web") + struct.pack("<IB", answer.generation, 0b10)
        peer.send(frames.frame(Kind.REFUSED, payload))
        await asyncio.sleep(0.1)
        served.inside.report("n2", "10", updated=1)
        assert Reader((await peer.next(Kind.WAKE)).payload).texts() == ["uid-web"]

    run(tmp_path, scenario)


def test_each_profile_has_its_own_arguments_and_the_pods_of_all_count(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        passing = []
        for profile in ("koord-scheduler", "batch"):
            peer = await served.connect()
            peer.send(peer_frames.hello(profile, "36"), pod("web", requests={"cpu": "40"}), pod("next"), SYNCED)
            await peer.next(Kind.READY)
            for number, reserved in enumerate([b"", about(Kind.RESERVE, "uid-web", "n1")]):
                peer.send(reserved, about(Kind.ASK, "uid-next", number=number))
                codes = peer_frames.read_answer((await peer.next(Kind.ANSWER)).payload).codes
                passing.append([True, True] if codes is None else [code == 0 for code in codes[:2]])
        assert passing == [[True, True], [False, True], [True, True], [True, True]]
        assert served.server.is_synced

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (peer_frames.hello("koord-scheduler", "36", version=9), "version 9"),
        (about(Kind.ASK, "uid-web"), "want HELLO"),
        (HELLO + about(Kind.ASK, "uid-nobody"), "want POD before"),
        (HELLO + frames.frame(Kind.ASK, b"\x09\x00abc"), "ends within a field"),
        (HELLO + frames.frame(Kind.UNRESERVE, b"\x00\x00abc"), "3 bytes behind"),
        (HELLO + frames.frame(Kind.POD, b'{"metadata":'), "truncated"),
        (HELLO + frames.frame(Kind.ANSWER), "want one that kube-scheduler sends"),
        (HELLO + struct.pack("<IBBHI", 2**30, Kind.POD, 0, 0, 0), "length 1073741824"),
    ],
)
def test_a_wrong_frame_closes_the_connection_with_the_cause(tmp_path: Path, sent: bytes, wanted: str) -> None:
    async def scenario(served: Served) -> None:
        peer = await served.connect()
        peer.send(sent)
        assert wanted in await peer.closed_because()
        again = await served.connect()
        again.send(HELLO, SYNCED)
        await again.next(Kind.READY)

    run(tmp_path, scenario)


def test_a_new_kube_scheduler_takes_the_place_of_the_last(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        first, second = await served.connect(), await served.connect()
        first.send(HELLO, pod("web", node="n1"), SYNCED)
        await first.next(Kind.READY)
        other = await served.connect()
        other.send(peer_frames.hello("another-profile", "36"))
        assert "'another-profile' is not served, but batch, koord-scheduler" in await other.closed_because()
        second.send(HELLO)
        assert "another kube-scheduler" in await first.closed_because()
        assert not served.server.is_synced
        second.send(SYNCED)
        await second.next(Kind.READY)
        assert served.server.is_synced
        assert served.inside.parts.cluster.counts()["pods"] == 0
        second.send(about(Kind.ASK, "uid-web")[:-3])
        await second.end()

    run(tmp_path, scenario)
