"""Plain requests to a kube-apiserver, cheap enough to generate load on the machine that is measured."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import queue
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

NODES = "/api/v1/nodes"
NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

_STALE_SECONDS = 30.0

JobT = TypeVar("JobT")
ObjectT = TypeVar("ObjectT")


class RequestError(Exception):
    """The apiserver returned an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Connection:
    """One keep-alive connection, for one thread at a time."""

    def __init__(self, port: int, certificates: pathlib.Path) -> None:
        trust = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        trust.load_cert_chain(certificates / "admin.crt", certificates / "admin.key")
        self._http: http.client.HTTPConnection = http.client.HTTPSConnection(
            "127.0.0.1", port, context=trust, timeout=120
        )
        self._used = time.monotonic()

    def raw(self, method: str, path: str, body: bytes | None = None, *, content: str = JSON) -> bytes:
        """Send a request and return the body of the response. Raises RequestError."""
        if time.monotonic() - self._used > _STALE_SECONDS:
            self._http.close()  # the request opens it again: the apiserver may have closed it
        self._used = time.monotonic()
        self._http.request(method, path, body, {"Content-Type": content} if body else {})
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise RequestError(answer.status, text.decode()[:300])
        return text

    def send(self, method: str, path: str, body: Any = None, *, content: str = JSON) -> Any:
        """Send and receive JSON. Raises RequestError."""
        encoded = None if body is None else json.dumps(body).encode()
        return json.loads(self.raw(method, path, encoded, content=content))

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of a watch, which does not end by itself."""
        self._http.request("GET", path)
        answer = self._http.getresponse()
        if answer.status != HTTPStatus.OK:
            raise RequestError(answer.status, answer.read().decode()[:300])
        rest = b""
        while part := answer.read1(2**20):
            *lines, rest = (rest + part).split(b"\n")
            yield from lines

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


class PlainConnection(Connection):
    """Connection without TLS, to a server in place of a kube-apiserver."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._used = time.monotonic()


def exists(api: Connection, path: str) -> bool:
    """Return whether a GET succeeds."""
    try:
        api.raw("GET", path)
    except RequestError:
        return False
    return True


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class Versioned(msgspec.Struct):
    """The resource version of any object."""

    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


version_of = msgspec.json.Decoder(Versioned)


def follow(
    connect: Callable[[], Connection], path: str, decode: type[ObjectT], seen: Callable[[ObjectT], None]
) -> None:
    """Watch all objects of a kind in a background thread; call `seen` with each present or changed object.

    The apiserver ends the watch of a slow client, and a quiet one times out, so the watch is resumed where it ended.
    """

    def work() -> None:
        events, objects = msgspec.json.Decoder(_Event), msgspec.json.Decoder(decode)
        version = "0"
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):  # the apiserver has ended
            while True:
                path_of_watch = f"{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}"
                with contextlib.suppress(TimeoutError), contextlib.closing(connect()) as api:
                    for line in api.lines(path_of_watch):
                        event = events.decode(line)
                        if event.type == "ERROR":  # the version is too old
                            version = "0"
                            break
                        version = version_of.decode(event.object).metadata.resource_version
                        if event.type in ("ADDED", "MODIFIED"):
                            seen(objects.decode(event.object))

    threading.Thread(target=work, daemon=True).start()


def in_parallel(
    connect: Callable[[], Connection], jobs: Iterable[JobT], do: Callable[[Connection, JobT], None], *, threads: int = 4
) -> None:
    """Run every job, each over the connection of its thread. The first error ends all and is raised."""
    waiting: queue.SimpleQueue[JobT] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    problems: list[BaseException] = []

    def work() -> None:
        api = connect()
        try:
            while not problems:
                do(api, waiting.get_nowait())
        except queue.Empty:
            pass
        except BaseException as problem:
            problems.append(problem)
        finally:
            api.close()

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if problems:
        raise problems[0]
