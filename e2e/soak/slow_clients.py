"""Thousands of clients that send a request a byte at a time: each has to be closed soon, whatever it sends."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from typing import NamedTuple

COUNT = 3_000
CLOSED_WITHIN_SECONDS = 15.0
_BYTE_SECONDS = 2.0
_CONNECT_SECONDS = 2.0
_MARGIN_FILES = 500


class Outcome(NamedTuple):
    """Result of one flood."""

    opened: int
    left_open: int
    """Connections that lived for longer than they may."""


def flood(port: int, count: int = COUNT) -> Outcome:
    """Open connections to a port of loopback, send a byte now and then, and count those that stay open."""
    _raise_limit_of_files(count + _MARGIN_FILES)
    clients: list[tuple[socket.socket, float]] = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            made = socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_SECONDS)
            made.setblocking(False)
            clients.append((made, time.monotonic()))
            made.send(b"GET /metrics HTTP/1.1\r\nX: ")
    opened = len(clients)
    last = max((since for _, since in clients), default=0.0)
    while clients and time.monotonic() < last + CLOSED_WITHIN_SECONDS:
        time.sleep(_BYTE_SECONDS)
        clients = [(client, since) for client, since in clients if _is_open(client)]
    for client, _ in clients:
        client.close()
    return Outcome(opened, len(clients))


def _is_open(client: socket.socket) -> bool:
    """Send a byte; return whether the server still takes it."""
    try:
        while client.recv(1024):
            pass
    except BlockingIOError:
        with contextlib.suppress(BlockingIOError):
            try:
                client.send(b"a")
            except OSError:
                client.close()
                return False
        return True
    except OSError:
        pass
    client.close()
    return False


def _raise_limit_of_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )
