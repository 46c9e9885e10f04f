"""Serve scripted answers of a kube-apiserver over HTTP on loopback, with delays and failures.

    async with apiserver.running() as server:
        server.on("GET", "/api/v1/pods", apiserver.page("7", pod("a")))          # a list
        server.on("WATCH", "/api/v1/pods", apiserver.Stream(changed, apiserver.HANG))  # GET with watch=true
        async with server.session() as api: ...
        server.requests[-1].query

Answers of one route are sent in order, the last one repeatedly; a function gets the request and returns one. A route
without a script answers as an apiserver does for a type that it does not serve. The server does not check its clients:
tests read `requests`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from apiserver_client import connection, session
from tests.fakes import connections


class Move(enum.Enum):
    """Action of the server on a connection in the middle of an answer."""

    HANG = "send nothing more, and keep the connection until the client gives up"
    ABORT = "reset the connection"


HANG = Move.HANG
ABORT = Move.ABORT


@dataclass(frozen=True)
class Answer:
    """A whole answer; a document is sent as JSON, bytes unchanged."""

    document: Any = field(default_factory=dict)
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


@dataclass(frozen=True)
class After:
    """Step of a stream that waits for an event."""

    event: asyncio.Event


@dataclass(frozen=True)
class Stream:
    """Steps of a chunked answer: a dictionary is sent as a line of JSON, bytes as one chunk, a Move is executed.

    After the last step the answer ends properly.
    """

    steps: tuple[dict[str, Any] | bytes | Move | After, ...]

    def __init__(self, *steps: dict[str, Any] | bytes | Move | After) -> None:
        object.__setattr__(self, "steps", steps)


@dataclass(frozen=True)
class Received:
    """A received request; `method` is WATCH for a GET with watch=true."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


Scripted = Answer | Stream | Move | Callable[[Received], "Answer | Stream | Move"]

NOT_SERVED = Answer(b"404 page not found\n", 404, (("Content-Type", "text/plain"),))


class ScriptedServer:
    """Server of this module. `hung_up` counts clients that closed the connection before the end of an answer."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Received] = []
        self.connections = 0
        self.hung_up = 0
        self._something_happened = asyncio.Condition()
        self._scripts: dict[tuple[str, str], list[Scripted]] = defaultdict(list)

    def on(self, method: str, path: str, *answers: Scripted, selector: str = "") -> None:
        """Add answers to the script of a route; with `selector`, only for requests with that selector."""
        self._scripts[method, f"{path}?{selector}" if selector else path].extend(answers)

    def asked(self, method: str, path: str | None = None) -> list[Received]:
        """Return the requests of a method that have arrived."""
        return [it for it in self.requests if it.method == method and path in (None, it.path)]

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until a condition on the arrived requests holds."""
        async with self._something_happened:
            await self._something_happened.wait_for(true)

    async def _notify(self) -> None:
        async with self._something_happened:
            self._something_happened.notify_all()

    def session(self, **changes: Any) -> contextlib.AbstractAsyncContextManager[session.Session]:
        """Open a session with this server; `changes` are fields of the connection, or `timeouts` or `may_write`."""
        own = {name: changes.pop(name) for name in ("timeouts", "may_write") if name in changes}
        to = connection.Connection(**{"server": self.url, "origin": "the test", **changes})
        return session.connect(to, user_agent="test/1", **own)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _receive(reader)) is not None:
                self.requests.append(request)
                await self._notify()
                query = request.query
                selected = f"{request.path}?{query.get('fieldSelector') or query.get('labelSelector')}"
                script = self._scripts.get((request.method, selected)) or self._scripts.get(
                    (request.method, request.path), [NOT_SERVED]
                )
                answer = script.pop(0) if len(script) > 1 else script[0]
                await self._play(answer(request) if callable(answer) else answer, reader, writer)
        except ConnectionError:
            self.hung_up += 1
            await self._notify()
        finally:
            writer.close()

    async def _play(
        self, answer: Answer | Stream | Move, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if isinstance(answer, Answer):
            body = answer.document if isinstance(answer.document, bytes) else json.dumps(answer.document).encode()
            headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **dict(answer.headers)}
            writer.write(_head(answer.status, headers) + body)
            await writer.drain()
            return
        steps: tuple[Any, ...] = (answer,)
        if isinstance(answer, Stream):
            steps = (*answer.steps, b"")
            writer.write(_head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))
        for step in steps:
            if isinstance(step, Move):
                await _move(step, reader, writer)
            if isinstance(step, After):
                await writer.drain()
                await step.event.wait()
                continue
            chunk = json.dumps(step).encode() + b"\n" if isinstance(step, dict) else step
            writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            await writer.drain()


async def _move(move: Move, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    if move is Move.ABORT:
        writer.transport.abort()
    else:
        await reader.read(1)  # until the client closes
    raise ConnectionResetError


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {text}" for name, text in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


async def _receive(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): text for name, text in (line.split(": ", 1) for line in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    query = dict(parse_qsl(url.query))
    return Received("WATCH" if query.get("watch") == "true" else method, url.path, query, headers, body)


@contextlib.asynccontextmanager
async def running(tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """Run a scripted server on a free port of loopback; with TLS if a context is given."""
    script = ScriptedServer()
    async with connections.served(script.serve, tls) as port:
        script.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        yield script


def page(resource_version: str, *items: dict[str, Any], more: str = "") -> Answer:
    """Return a page of a list; `more` is the token of the next page."""
    metadata = {"resourceVersion": resource_version} | ({"continue": more} if more else {})
    return Answer({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def pages(resource_version: str, *items: bytes) -> Callable[[Received], Answer]:
    """Return the answers to a list of these objects, by `limit` and `continue` of each request, as an apiserver does.

    It ignores the limit where it answers from its watch cache, and sends the metadata alone where they are accepted.
    """

    def answer(request: Received) -> Answer:
        start, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", len(items)))
        end = len(items) if request.query.get("resourceVersion") == "0" else start + limit
        sent = items[start:end]
        if "PartialObjectMetadataList" in request.headers["accept"]:
            sent = tuple(
                b'{"metadata":%s}' % bytes(msgspec.json.decode(item, type=_Metadata).metadata) for item in sent
            )
        token = b',"continue":"%d"' % end if end < len(items) else b""
        metadata = b'{"resourceVersion":"%s"%s}' % (resource_version.encode(), token)
        return Answer(b'{"metadata":%s,"items":[%s]}' % (metadata, b",".join(sent)))

    return answer


def status(code: int, reason: str, message: str = "", *, retry_after: str = "", **details: Any) -> Answer:
    """Return an error answer of an apiserver."""
    document = {
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message, "details": details,
    }  # fmt: skip
    return Answer(document, code, (("Retry-After", retry_after),) if retry_after else ())


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return a line of a watch; `kind` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""
    return {"type": kind, "object": item}
