"""Open listening sockets, for IPv4 and IPv6 alike."""

from __future__ import annotations

import errno
import socket
from typing import Final

ALL_ADDRESSES: Final = "::"
"""Every address of the host, of IPv6 and IPv4; of IPv4 only where the host has no IPv6."""

_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


class CannotListen(Exception):
    """The address is in use or not of this host; the message names it."""


def listen(address: str, port: int, *, purpose: str, fix: str) -> socket.socket:
    """Return a socket that listens on an address; `port` 0 takes any free port. Raises CannotListen."""
    try:
        try:
            return _open(address, port)
        except OSError as error:
            if address != ALL_ADDRESSES or error.errno not in _NO_IPV6:
                raise
            return _open("0.0.0.0", port)  # noqa: S104  # the caller asked for all addresses
    except OSError as error:
        where = host_and_port(address, port)
        raise CannotListen(f"cannot listen on {where} for {purpose}: {error.strerror or error}; {fix}") from error


def host_and_port(address: str, port: int) -> str:
    """Return `address:port`, with brackets around an address of IPv6."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _open(address: str, port: int) -> socket.socket:
    addresses = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _type, _protocol, _name, full_address = addresses[0]
    both = address == ALL_ADDRESSES
    opened = socket.create_server(full_address[:2], family=family, dualstack_ipv6=both)
    opened.setblocking(False)
    return opened
