"""Serve the pages on loopback until stopped: one process, one connection limit, no access log."""

from __future__ import annotations

import socket
from typing import Final

import uvicorn

from component_base import listening
from console.web.access import Access

LOOPBACK: Final = "127.0.0.1"
_MOST_CONNECTIONS: Final = 64
_KEEP_ALIVE_SECONDS: Final = 10
_STOP_SECONDS: Final = 1


def listen(port: int) -> socket.socket:
    """Open the port on loopback; 0 takes any free one. Raises listening.CannotListen."""
    opened = listening.listen(LOOPBACK, port, purpose="the pages", fix="choose another port, or 0 for a free one")
    # Of its connections too. Without it a page on a kept connection waits 40 ms for the acknowledgement of its head.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def server(app: Access) -> uvicorn.Server:
    """Return a server; `serve(sockets=[...])` runs it until a signal."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_STOP_SECONDS,
            ws="none",
            proxy_headers=False,
        )
    )
