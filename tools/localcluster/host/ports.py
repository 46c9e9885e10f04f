"""TCP ports: those that the cluster needs and who has taken them, and any that are free."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

import psutil

from tools.localcluster.errors import ClusterProblem


def require_free(names_by_port: Mapping[int, str]) -> None:
    """Raise ClusterProblem that names every wanted port in use and the process that listens on it."""
    taken = {port: listener for port, listener in listeners().items() if port in names_by_port}
    if taken:
        told = "; ".join(f"port {port} ({names_by_port[port]}) is used by {who}" for port, who in sorted(taken.items()))
        raise ClusterProblem(f"{told}; end it, or `python -m tools.localcluster down` if it is an earlier cluster")


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def listeners() -> dict[int, str]:
    """Ports that something listens on -> `name (pid N)`."""
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
