"""Fuzz the extender in a process of its own with malformed, truncated, huge and hostile requests.

    python -m tests.scheduler_plugin.extender.fuzz [--requests 100000] [--seed 0]

Count the statuses, and keep every unexpected one: 200 or 400 is expected for a complete request with a valid or invalid
body, another 4xx or a closed connection for a malformed request, never 5xx. Fail on an unexpected status, on a server
that ended, and on memory that grew by more than 32 MiB after the first tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import psutil

from scheduler_plugin.extender import dispatcher, metrics
from scheduler_plugin.extender.http_server import ExtenderServer
from tests.fakes import server_process
from tests.scheduler_plugin import factories

MAX_BODY_BYTES = 2**21
NAMES = [f"n{index}" for index in range(40)]
VERBS = ("filter", "prioritize", "preempt", "bind")
MOST_GROWTH_MEBIBYTES = 32
_RESPONSE_SECONDS = 10.0


class Attack(NamedTuple):
    """Bytes to send, and the expected statuses; 0 means a closed connection."""

    kind: str
    data: bytes
    expected: frozenset[int]
    hang_up: bool = False


class Outcome(NamedTuple):
    """Result of a whole run."""

    statuses: collections.Counter[tuple[str, int]]
    unexpected: list[tuple[Attack, int]]
    slowest_seconds: float
    growth_mebibytes: float
    works_after: bool


HANDLED = frozenset({200, 400})
BROKEN = frozenset({400, 404, 405, 411, 413, 431, 0})


def serve(port_to: Connection) -> None:
    """Serve a small cluster."""
    parts = factories.parts(assumed_ttl_seconds=0)
    for index, name in enumerate(NAMES):
        parts.cluster.node_changed(factories.node(name))
        parts.cluster.metric_changed(factories.metric(name, usage={"cpu": str(index * 2), "memory": "10Gi"}))
    counted = metrics.RequestMetrics(metrics.CollectorRegistry())
    dispatch = dispatcher.Dispatcher(parts.extender, counted, list, lambda: factories.NOW)

    async def run() -> None:
        server = ExtenderServer("127.0.0.1", 0, dispatch, max_body_bytes=MAX_BODY_BYTES)
        await server.start()
        port_to.send(server.port)
        while True:
            parts.cluster.expire_assumed()
            await asyncio.sleep(0.1)

    asyncio.run(run())


def body(chance: random.Random) -> Any:
    """Return a request that kube-scheduler can send."""
    pod = factories.pod_document(
        f"pod-{chance.randrange(500)}",
        requests={"cpu": "500m", "memory": "1Gi"},
        annotations={"a": "b"},
        owner_kind=chance.choice([None, "DaemonSet"]),
    )
    names = chance.sample([*NAMES, "stranger"], chance.randrange(len(NAMES)))
    return {"Pod": pod, "Nodes": None, "NodeNames": names}


def preemption(chance: random.Random) -> Any:
    content = body(chance)
    victims = {name: {"Pods": [{"UID": f"uid-{name}"}], "NumPDBViolations": 1} for name in content["NodeNames"]}
    return {"Pod": content["Pod"], "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}


def binding(chance: random.Random) -> Any:
    name = f"pod-{chance.randrange(500)}"
    return {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": chance.choice(NAMES)}


def whole(verb: str, content: bytes) -> bytes:
    return b"POST /%b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (verb.encode(), len(content), content)


def request_of(chance: random.Random) -> tuple[str, Any]:
    """Return a verb, and mostly a request of this verb, otherwise one of another."""
    verb = chance.choice(VERBS)
    shape = verb if chance.random() < 0.9 else chance.choice(VERBS)
    return verb, {"bind": binding, "preempt": preemption}.get(shape, body)(chance)


def valid(chance: random.Random) -> Attack:
    verb = chance.choice(VERBS)
    content = {"bind": binding, "preempt": preemption}.get(verb, body)(chance)
    return Attack(f"valid {verb}", whole(verb, json.dumps(content).encode()), frozenset({200}))


def damaged(chance: random.Random) -> Attack:
    verb, request = request_of(chance)
    content = bytearray(json.dumps(request).encode())
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(content))
        content[at : at + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
    return Attack(f"damaged {verb}", whole(verb, bytes(content)), HANDLED)


HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**400, -(10**30), "", "a" * 70_000, "\x00", "\ud83d\ude00", [], {}, [[]], {"": None}),
    *("1e999", "-5", "9" * 5_000, "1" * 5_000 + "Ki", "NaN", "0x10", "1e-999", " 1", "٣", "1_0", {"cpu": {"cpu": "1"}}),
)


def hostile(chance: random.Random) -> Attack:
    """Replace some values anywhere in a request, quantities and names among them."""

    def spoiled(value: Any) -> Any:
        if chance.random() < 0.06:
            return chance.choice(HOSTILE)
        if isinstance(value, dict):
            return {key: spoiled(inner) for key, inner in value.items()}
        return [spoiled(inner) for inner in value] if isinstance(value, list) else value

    verb, request = request_of(chance)
    return Attack(f"hostile {verb}", whole(verb, json.dumps(spoiled(request)).encode()), HANDLED)


def whole_nodes(chance: random.Random) -> Attack:
    """Send what kube-scheduler sends with nodeCacheCapable: false."""
    content = body(chance)
    items = [{"metadata": {"name": name}} for name in content["NodeNames"]]
    data = whole(
        chance.choice(VERBS[:2]), json.dumps({**content, "Nodes": {"items": items}, "NodeNames": None}).encode()
    )
    return Attack("whole nodes", data, frozenset({400}))


def truncated(chance: random.Random) -> Attack:
    data = valid(chance).data
    return Attack("truncated", data[: chance.randrange(1, len(data))], frozenset({0}), hang_up=True)


def huge(chance: random.Random) -> Attack:
    size = chance.choice([2**21 + 1, 2**40, 10**17])
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
    makers: tuple[Callable[[], Attack], ...] = (
        lambda: Attack("huge, announced", head, frozenset({413})),
        lambda: Attack(
            "deeply nested", whole("filter", b'{"Pod":' + b"[" * chance.randrange(100_000)), frozenset({400})
        ),
        lambda: Attack("deeply nested", whole("filter", b'{"x":' * 50_000 + b"1" + b"}" * 50_000), frozenset({400})),
        lambda: Attack("many names", whole("filter", factories.request(body(chance)["Pod"], ["a"] * 20_000)), HANDLED),
        lambda: Attack("large pod", whole("filter", json.dumps(large_pod(chance)).encode()), HANDLED),
    )
    return chance.choice(makers)()


def large_pod(chance: random.Random) -> Any:
    pod = factories.pod_document(f"large-{chance.random()}", annotations={"text": "x" * 1_000_000})
    return {"Pod": pod, "NodeNames": NAMES}


HEADS = (
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"POST /filter\r\n\r\n",
    b"POST /filter HTTP/9\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nContent-Length: 0x5\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nno colon\r\n\r\n",
    b"POST /../../etc/passwd HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    b"GET /filter HTTP/1.1\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)


def bad_head(chance: random.Random) -> Attack:
    if chance.random() < 0.3:
        return Attack("random bytes", chance.randbytes(chance.randrange(1, 200)) + b"\r\n\r\n", BROKEN)
    return Attack("bad head", chance.choice(HEADS), BROKEN)


KINDS: tuple[tuple[int, Callable[[random.Random], Attack]], ...] = (
    (25, valid),
    (30, damaged),
    (25, hostile),
    (8, bad_head),
    (2, whole_nodes),
    (8, truncated),
    (2, huge),
)


class Client:
    """Client that sends an attack over a persistent connection, and reads its first response."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def status(self, attack: Attack) -> int:
        """Return the status, 0 for a closed connection. The response must be JSON of the announced length."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=_RESPONSE_SECONDS)
        try:
            self._socket.sendall(attack.data)
            if attack.hang_up:
                self.close()
                return 0
            status, stays_open = self._response(self._socket)
        except ConnectionError:
            status, stays_open = 0, False
        if not stays_open or attack.kind in ("bad head", "random bytes"):
            self.close()
        return status

    def _response(self, connection: socket.socket) -> tuple[int, bool]:
        received = bytearray()
        while (end := received.find(b"\r\n\r\n")) < 0:
            if not (chunk := connection.recv(65536)):
                return 0, False
            received += chunk
        head = received[:end].lower()
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(received) < end + 4 + length:
            received += connection.recv(65536)
        json.loads(received[end + 4 :])
        return int(head.split(b" ")[1]), b"connection: close" not in head


@contextlib.contextmanager
def running() -> Iterator[tuple[int, psutil.Process]]:
    """Run the server in a process of its own; yield its port and the process."""
    with server_process.running(serve) as found:
        yield found


def fuzz(requests: int, seed: int) -> Outcome:
    """Send that many attacks."""
    chance = random.Random(seed)
    weights, makers = zip(*KINDS, strict=True)
    statuses: collections.Counter[tuple[str, int]] = collections.Counter()
    unexpected: list[tuple[Attack, int]] = []
    slowest, warm = 0.0, 0
    with running() as (port, process):
        client = Client(port)
        for index in range(requests):
            if index == requests // 10:
                warm = process.memory_info().rss
            attack = chance.choices(makers, weights)[0](chance)
            began = time.perf_counter()
            status = client.status(attack)
            slowest = max(slowest, time.perf_counter() - began)
            statuses[attack.kind, status] += 1
            if status not in attack.expected:
                unexpected.append((attack, status))
        growth = (process.memory_info().rss - warm) / 2**20
        client.close()
        works_after = client.status(valid(chance)) == 200
        client.close()
    return Outcome(statuses, unexpected, slowest, growth, works_after)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    outcome = fuzz(chosen.requests, chosen.seed)
    for (kind, status), count in sorted(outcome.statuses.items()):
        print(f"{kind:<20}{status or 'closed':>8}{count:>9}")
    print(f"slowest response {outcome.slowest_seconds * 1e3:.0f} ms; memory {outcome.growth_mebibytes:+.1f} MiB")
    for attack, status in outcome.unexpected[:10]:
        print(f"unexpected status {status} for {attack.kind}: {attack.data[:300]!r}")
    print("works afterwards" if outcome.works_after else "does NOT work afterwards")
    grew = outcome.growth_mebibytes > MOST_GROWTH_MEBIBYTES
    return 1 if outcome.unexpected or grew or not outcome.works_after else 0


if __name__ == "__main__":
    sys.exit(main())
