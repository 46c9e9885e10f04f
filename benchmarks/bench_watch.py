"""Measure the cost of one watch event in the watching process, from the socket: by layer, at a rate and in a burst.

    python -m benchmarks.bench_watch [--rates R ...] [--events N] [--rounds K]

A server in another process sends pods of 5 kB over one TLS connection as a kube-apiserver does: each event is one chunk
and one write; rate 0 is as fast as possible. CPU is the user and kernel time of the watching process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import pathlib
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from multiprocessing.connection import Connection
from urllib.parse import parse_qs, urlsplit

import msgspec

from api_types.kubernetes import pods
from apiserver_client import connection, errors, objects, resources, session, watching
from benchmarks import synthetic_cluster
from tests.fakes import certificates

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_EMPTY_LIST = b'{"metadata":{"resourceVersion":"1"},"items":[]}'

Layer = Callable[[session.Session, ssl.SSLContext, int], Awaitable[float]]


async def _bytes_alone(api: session.Session, trust: ssl.SSLContext, events: int) -> float:
    """Read by TLS of asyncio and only count line ends: the lower bound."""
    port = urlsplit(api.server).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    writer.write(b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\n\r\n")
    seen, began = 0, time.process_time()
    while seen < events:
        seen += (await reader.read(2**16)).count(b"}\n\r\n")
    took = time.process_time() - began
    writer.transport.abort()
    return took


async def _stream(api: session.Session, _trust: ssl.SSLContext, events: int) -> float:
    """Read by `Session.stream`: with HTTP."""
    call = objects.call("GET", "watch", resources.PODS, None, None)
    seen = 0
    async with api.stream(call, parameters={"watch": "true"}, silence_seconds=90) as chunks:
        began = time.process_time()
        async for chunk in chunks:
            seen += chunk.count(b"}\n")
            if seen >= events:
                break
        return time.process_time() - began


async def _events(api: session.Session, _trust: ssl.SSLContext, events: int) -> float:
    """Read by `list_then_watch`: with lines, JSON and types, for a consumer that does nothing."""
    seen, began = 0, 0.0
    async with contextlib.aclosing(watching.list_then_watch(api, resources.PODS, decode=pods.Pod)) as all_events:
        async for event in all_events:
            if isinstance(event, watching.Synced):
                began = time.process_time()
            seen += isinstance(event, watching.Changed)
            if seen >= events:
                break
        return time.process_time() - began


LAYERS: dict[str, Layer] = {"bytes alone": _bytes_alone, "Session.stream": _stream, "list_then_watch": _events}


async def _serve(port_to: Connection, folder: pathlib.Path) -> None:
    made = certificates.make(folder, "server")
    pod = synthetic_cluster.pod("application-7d9f8b6c5-abcde", node="node-1", scheduled=1.0)
    line = b'{"type":"MODIFIED","object":%b}\n' % msgspec.json.encode(pod)
    chunk = b"%x\r\n%b\r\n" % (len(line), line)
    rate = 0.0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal rate
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                url = urlsplit((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode())
                if url.path.startswith("/rate/"):
                    rate = float(url.path.removeprefix("/rate/"))
                if "watch" not in parse_qs(url.query):
                    writer.write(_OK + b"Content-Length: %d\r\n\r\n" % len(_EMPTY_LIST) + _EMPTY_LIST)
                    continue
                writer.write(_OK + b"Transfer-Encoding: chunked\r\n\r\n")
                began, sent = time.monotonic(), 0
                while not writer.is_closing():
                    writer.write(chunk)
                    sent += 1
                    await writer.drain()
                    await asyncio.sleep(max(0.0, began + sent / rate - time.monotonic()) if rate else 0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=made.server_context())
    port_to.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _run_server(port_to: Connection, folder: pathlib.Path) -> None:
    asyncio.run(_serve(port_to, folder))


@contextlib.contextmanager
def _serving(folder: pathlib.Path) -> Iterator[str]:
    receiver, sender = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_run_server, args=(sender, folder), daemon=True)
    process.start()
    try:
        yield f"https://127.0.0.1:{receiver.recv()}"
    finally:
        process.terminate()
        process.join()


@contextlib.asynccontextmanager
async def _session(url: str, folder: pathlib.Path) -> AsyncIterator[tuple[session.Session, ssl.SSLContext]]:
    to = connection.Connection(url, "the benchmark", ca_path=folder / "server.crt", token="token")
    trust = to.tls_context()
    assert trust is not None
    async with session.connect(to, user_agent="bench/1") as api:
        yield api, trust


async def _measure(url: str, folder: pathlib.Path, rates: list[float], events: int, rounds: int) -> None:
    print(f"{'events/s':>10}" + "".join(f"{name:>18}" for name in LAYERS) + "   us of CPU an event, median of rounds")
    async with _session(url, folder) as (api, trust):
        for rate in rates:
            count = events if not rate else max(50, min(events, int(rate * 4)))
            await api.send(errors.Call("GET", f"/rate/{rate}", "get", "rate"))
            took: dict[str, list[float]] = {name: [] for name in LAYERS}
            for _ in range(rounds):
                for name, layer in LAYERS.items():
                    took[name].append(await layer(api, trust, count) / count * 1e6)
            print(f"{rate or 'all':>10}" + "".join(f"{statistics.median(each):>18.1f}" for each in took.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rates", type=float, nargs="+", default=(30, 300, 0))
    parser.add_argument("--events", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with _serving(folder) as url:
            asyncio.run(_measure(url, folder, list(chosen.rates), chosen.events, chosen.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
