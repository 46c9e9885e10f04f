"""HTTP server that replays a synthetic cluster: lists in pages, single nodes and reports, watch events at a rate.

    with replay_apiserver.running(nodes=1000, pods_per_node=50) as url: ...
    GET /replay?rate=250       send this many NodeMetric events a second, over all nodes in turn
    GET /replay?events=5000    send this many NodeMetric events at once
    GET /replay?forget         end every watch with 410 Gone, so that clients list again

A real apiserver needs two cores for 200 such events a second; this one prepares most bytes in advance.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from benchmarks import synthetic_cluster
from tests.fakes import server_process

NAME = b"@name@"
_TIME_AT_START = "2001-01-01T00:00:00Z"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n"
_STATUS = b'{"kind":"Status","status":"Failure","reason":"NotFound","message":"not replayed","code":404}'
_GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "replayed"}}
_BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}
_BOOKMARK_SECONDS = 30.0
_PODS_AGE_SECONDS = 3600.0


class Recorded(NamedTuple):
    """What a real apiserver answered, to be repeated."""

    nodes: Sequence[Mapping[str, Any]] = ()
    """Nodes whose annotations and status the synthetic ones get, in turn."""
    reports: Sequence[Mapping[str, Any]] = ()
    """NodeMetrics, in the order of `nodes`, whose spec and status the synthetic ones get, but for pods and time."""
    answers: Mapping[tuple[str, str], bytes] = {}  # never changed
    """Answers to other requests, by path and field selector."""


class _Cluster:
    """JSON of every object; pods are generated per request."""

    def __init__(self, nodes: int, pods_per_node: int, metric: bytes | None, recorded: Recorded) -> None:
        self._names = synthetic_cluster.node_names(nodes)
        self._index = {name: index for index, name in enumerate(self._names)}
        self._pods_per_node = pods_per_node
        self._recorded = recorded
        self._scheduled = time.time() - _PODS_AGE_SECONDS
        self.metrics = [
            metric.replace(NAME, name.encode()) if metric is not None else msgspec.json.encode(self._report(index))
            for index, name in enumerate(self._names)
        ]

    def _report(self, index: int) -> dict[str, Any]:
        epoch = 978307200.0  # of _TIME_AT_START
        made = synthetic_cluster.node_metric(self._names[index], self._pods_per_node, epoch)
        if not self._recorded.reports:
            return made
        found = self._recorded.reports[index % len(self._recorded.reports)]
        own = {key: made["status"][key] for key in ("updateTime", "podsMetric")}
        return made | {"spec": found["spec"], "status": {**made["status"], **found["status"], **own}}

    def _node(self, index: int) -> dict[str, Any]:
        made = synthetic_cluster.node(self._names[index])
        if not self._recorded.nodes:
            return made
        found = self._recorded.nodes[index % len(self._recorded.nodes)]
        made["metadata"]["annotations"] |= found["metadata"].get("annotations", {})
        return made | {"status": {**made["status"], **found["status"]}}

    def _pods(self, index: int) -> list[bytes]:
        made = synthetic_cluster.pods_of(self._names[index], self._pods_per_node, self._scheduled)
        return [msgspec.json.encode(pod) for pod in made]

    def answer(self, path: str, selector: str, limit: int, start: int) -> bytes | None:
        """Return the answer to a list or to a read of one object; None for what does not exist."""
        if (path, selector) in self._recorded.answers:
            return self._recorded.answers[path, selector]
        makers: dict[str, Callable[[int], list[bytes]]] = {
            "nodes": lambda index: [msgspec.json.encode(self._node(index))],
            "pods": self._pods,
            "nodemetrics": lambda index: [self.metric(index)],
        }
        parent, _, last = path.rpartition("/")
        make = makers.get(parent.rpartition("/")[2])
        if make and last in self._index:
            return make(self._index[last])[0]
        if last not in makers:
            return None
        of_node = selector.removeprefix("spec.nodeName=")
        if selector and of_node not in self._index:
            return _list_of([], 0, 0)
        first, end = (self._index[of_node],) * 2 if selector else (start, len(self._names) - 1)
        items: list[bytes] = []
        index = first
        while index <= end and (not limit or len(items) < limit):
            items += makers[last](index)
            index += 1
        return _list_of(items, index, end + 1)

    def metric(self, index: int) -> bytes:
        """Return the report of one node, as of now."""
        now = synthetic_cluster.moment(time.time())
        return self.metrics[index % len(self.metrics)].replace(_TIME_AT_START.encode(), now.encode())


def _list_of(items: Sequence[bytes], reached: int, count: int) -> bytes:
    more = f'"{reached}"' if reached < count else '""'
    return b'{"metadata":{"resourceVersion":"1","continue":%b},"items":[%b]}' % (more.encode(), b",".join(items))


class _Replay:
    """State of the server."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._rate = 0.0
        self._requested = 0
        """Events to send at once."""
        self._forgotten = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                url = urlsplit(head.split(b" ", 2)[1].decode())
                query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
                if url.path == "/replay":
                    self._control(query)
                    writer.write(_HEAD + b"Content-Length: 2\r\n\r\n{}")
                elif query.get("watch") == "true":
                    await self._watch(url.path, writer)
                else:
                    selector, limit, start = (query.get(key, "") for key in ("fieldSelector", "limit", "continue"))
                    body = self._cluster.answer(url.path, selector, int(limit or 0), int(start or 0))
                    head, body = (_NOT_FOUND, _STATUS) if body is None else (_HEAD, body)
                    writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    def _control(self, query: dict[str, str]) -> None:
        self._rate = float(query.get("rate", self._rate))
        self._requested += int(query.get("events", "0"))
        if "forget" in query:
            self._forgotten.set()
            self._forgotten = asyncio.Event()

    async def _watch(self, path: str, writer: asyncio.StreamWriter) -> None:
        forgotten = self._forgotten
        writer.write(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        await self._stream(writer, forgotten, with_events=path.endswith("nodemetrics"))
        _write_line(writer, msgspec.json.encode(_GONE))
        writer.write(b"0\r\n\r\n")

    async def _stream(self, writer: asyncio.StreamWriter, until: asyncio.Event, *, with_events: bool) -> None:
        """Write bookmarks, and events at the current rate; delayed events are sent as soon as possible."""
        sent, due = 0, 0.0
        last = written = time.monotonic()
        while not until.is_set():
            await asyncio.sleep(0.002 if with_events else 0.1)
            now = time.monotonic()
            if now - written > _BOOKMARK_SECONDS:
                _write_line(writer, msgspec.json.encode(_BOOKMARK))
                written = now
            due, last = due + (now - last) * self._rate * with_events, now
            if with_events:
                due, self._requested = due + self._requested, 0
            while sent < due:
                _write_line(writer, b'{"type":"MODIFIED","object":%b}' % self._cluster.metric(sent))
                sent += 1
                await writer.drain()


def _write_line(writer: asyncio.StreamWriter, line: bytes) -> None:
    writer.write(b"%x\r\n%b\n\r\n" % (len(line) + 1, line))


def _serve(port_to: Connection, nodes: int, pods_per_node: int, metric: bytes | None, recorded: Recorded) -> None:
    async def serve() -> None:
        replay = _Replay(_Cluster(nodes, pods_per_node, metric, recorded))
        server = await asyncio.start_server(replay.serve, "127.0.0.1", 0)
        port_to.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


@contextlib.contextmanager
def running(
    *, nodes: int, pods_per_node: int, metric: bytes | None = None, recorded: Recorded | None = None
) -> Iterator[str]:
    """Run the server in a process of its own; yield its URL. `metric` is every NodeMetric, with NAME for its name."""
    with server_process.running(_serve, nodes, pods_per_node, metric, recorded or Recorded()) as (port, _):
        yield f"http://127.0.0.1:{port}"
