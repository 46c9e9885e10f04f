"""Check that TCP ports are free, and find free ones."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Mapping
from typing import Final

import psutil

from tools.localcluster.errors import ClusterProblem

_PORTS: Final = range(15_000, 30_000)
"""Below the NodePorts, and below the ports of outgoing connections (net.ipv4.ip_local_port_range)."""


def require_free(names_by_port: Mapping[int, str]) -> None:
    """Raise ClusterProblem with every wanted port in use and the process that listens on it."""
    taken = {port: listener for port, listener in listeners().items() if port in names_by_port}
    if taken:
        uses = "; ".join(f"port {port} ({names_by_port[port]}) is used by {by}" for port, by in sorted(taken.items()))
        raise ClusterProblem(f"{uses}; end it, or `python -m tools.localcluster down` if it is an earlier cluster")


def free_port() -> int:
    """Return a free port of loopback."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return `count` different free ports of loopback, drawn by chance. Raises ClusterProblem.

    No outgoing connection takes one of them before its server does.
    """
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            return found
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    raise ClusterProblem(f"{len(found)} ports from {_PORTS.start} to {_PORTS.stop - 1} are free, want {count}")


def listeners() -> dict[int, str]:
    """Return every port with a listener, and the listener as `name (pid N)`."""
    found = {}
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr:
            found[connection.laddr.port] = _describe(connection.pid)
    return found


def _describe(pid: int | None) -> str:
    try:
        return f"{psutil.Process(pid).name()} (pid {pid})" if pid else "a process of another user"
    except psutil.NoSuchProcess:
        return f"a process that just ended (pid {pid})"
