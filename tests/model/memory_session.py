"""Sessions with an API server in this process: the bytes of the wire, without sockets, with faults for each client."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

from apiserver_client import connection, errors, session
from tests.fakes import apiserver, cluster

CONNECTION = connection.Connection(server="http://model", origin="the model", namespace="koordinator-system")


class Change(NamedTuple):
    """One change of an object, and its line in a watch."""

    kind: str
    plural: str
    namespace: str
    version: int
    item: dict[str, Any]
    line: bytes


class Server(cluster.Cluster):
    """The fake cluster, with selectors by inequality, and watches that wake at once."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Change] = []
        self._sleepers: dict[int, asyncio.Event] = {}
        """In the order in which they came, so that a run can be repeated."""
        self._numbers = itertools.count()

    def _store(self, key: cluster.Key, item: dict[str, Any], change: str) -> dict[str, Any]:
        self._version += 1
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self._version)}}
        self._objects[key] = item
        self._store_change(change, key[0], item)
        return item

    def _store_change(self, change: str, plural: str, item: dict[str, Any]) -> None:
        if change == "DELETED":
            self._version += 1
            item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self._version)}}
        namespace = item["metadata"].get("namespace", "")
        self.log.append(Change(change, plural, namespace, self._version, item, _line(change, item)))
        for sleeper in self._sleepers.values():
            sleeper.set()

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> dict[str, Any]:
        selector = query.get("fieldSelector", "")
        found = super()._list(plural, namespace, {key: value for key, value in query.items() if key != "fieldSelector"})
        return found | {"items": [item for item in found["items"] if _matches(item, selector)]}

    def view(self, plural: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return a stored object without a copy: for reading only."""
        return self._objects.get((plural, namespace, name))

    @contextlib.contextmanager
    def sleeper(self) -> Iterator[asyncio.Event]:
        """Yield an event that each change sets."""
        number, event = next(self._numbers), asyncio.Event()
        self._sleepers[number] = event
        try:
            yield event
        finally:
            del self._sleepers[number]


class Client:
    """What one client of the API server meets."""

    def __init__(self, name: str, server: Server) -> None:
        self.name = name
        self.server = server
        self.is_cut_off = False
        self.cuts = 0
        self.refusals: dict[tuple[str, str], cluster.Refusal] = {}
        """(method, plural) -> answer, until it is removed."""
        self.lies: dict[tuple[str, str], cluster.Refusal] = {}
        """The same, of a server that has done what was asked for."""
        self.rewrite: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        """Change of the bodies that this client sends."""

    def cut_off(self) -> None:
        """Break every connection until `is_cut_off` is reset."""
        self.is_cut_off = True
        self.cuts += 1
        for sleeper in self.server._sleepers.values():
            sleeper.set()

    def session(self, may_write: Callable[[], bool] = lambda: True) -> MemorySession:
        return MemorySession(self, may_write)


class MemorySession(session.Session):
    """A session whose calls are function calls."""

    def __init__(self, client: Client, may_write: Callable[[], bool]) -> None:
        self.connection = CONNECTION
        self._client = client
        self._store = client.server
        self._may_write = may_write
        self._date: list[str] = []  # this server states no time

    async def send(self, call, *, parameters=None, body=None, content_type="", accept="", **_) -> bytes:
        if call.method != "GET" and not self._may_write():
            raise errors.NotLeader(f"{call}: write blocked: not the leader")
        await asyncio.sleep(0)
        self._fail_if_cut_off(call)
        plural = call.resource.partition("/")[0]
        if (refusal := self._client.refusals.get((call.method, plural))) is not None:
            answer = refusal.answer
        else:
            if body is not None and self._client.rewrite is not None:
                body = json.dumps(self._client.rewrite(json.loads(body))).encode()
            headers = {"user-agent": self._client.name}
            asked = apiserver.Received(call.method, call.path, dict(parameters or {}), headers, body or b"")
            answer = self._store._answer(asked)
            if answer.status < 300 and (lie := self._client.lies.get((call.method, plural))) is not None:
                answer = lie.answer
        content = json.dumps(answer.document).encode()
        if answer.status >= 300:
            raise errors.refusal(call, answer.status, content, dict(answer.headers).get("Retry-After", ""))
        return content

    @contextlib.asynccontextmanager
    async def stream(self, call, *, parameters, silence_seconds, **_) -> AsyncIterator[AsyncIterator[bytes]]:
        self._fail_if_cut_off(call)
        yield self._changes(call, dict(parameters))

    async def _changes(self, call, query) -> AsyncIterator[bytes]:
        plural, namespace, _, _ = cluster._address(call.path)
        cuts, selector, log = self._client.cuts, query.get("fieldSelector", ""), self._store.log
        position = len(log)
        while position and log[position - 1].version > int(query["resourceVersion"]):
            position -= 1
        with self._store.sleeper() as changed:
            while True:
                changed.clear()
                seen, position = log[position:], len(log)
                for change in seen:
                    if change.plural == plural and namespace in ("", change.namespace):
                        if _matches(change.item, selector):
                            yield change.line
                        elif "nodeName" in selector:  # it may have left the selection
                            yield _line("DELETED", change.item)
                if position == len(log):
                    await changed.wait()
                if self._client.cuts != cuts:
                    raise errors.Unreachable(f"{call}: the model has cut {self._client.name} off")

    def _fail_if_cut_off(self, call) -> None:
        if self._client.is_cut_off:
            raise errors.Unreachable(f"{call}: the model has cut {self._client.name} off")


def _line(kind: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def _matches(item: dict[str, Any], selector: str) -> bool:
    terms = [term for term in selector.split(",") if term]
    return cluster._selected(item, ",".join(term for term in terms if "!=" not in term)) and not any(
        cluster._selected(item, term.replace("!=", "=")) for term in terms if "!=" in term
    )
