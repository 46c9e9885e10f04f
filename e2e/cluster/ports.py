"""TCP ports that the cluster needs, and who has taken them."""

from __future__ import annotations

from collections.abc import Mapping

import psutil

from e2e.cluster.failures import ClusterProblem


def require_free(names_by_port: Mapping[int, str]) -> None:
    """Raise ClusterProblem that names every wanted port in use and the process that listens on it."""
    taken = {port: listener for port, listener in listeners().items() if port in names_by_port}
    if taken:
        told = "; ".join(f"port {port} ({names_by_port[port]}) is used by {who}" for port, who in sorted(taken.items()))
        raise ClusterProblem(f"{told}; end it, or `python -m e2e.cluster down` if it is an earlier cluster")


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
