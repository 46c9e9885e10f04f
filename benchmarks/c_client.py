"""Requests as kube-scheduler sends them, measured by a client in C (`c_client.c`): one in Python would add its time."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
from collections.abc import Sequence

_SOURCE = pathlib.Path(__file__).with_name("c_client.c")


def request(verb: str, body: bytes) -> bytes:
    """Return a whole request of Go's client."""
    head = (
        f"POST /{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def seconds_of(port: int, requests: Sequence[bytes], *, rounds: int, pause_seconds: float) -> list[list[float]]:
    """Return the seconds of every call by request, sent in turn over one connection, `rounds` times, with pauses."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "c_client")
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, _SOURCE], check=True)
        files = []
        for index, content in enumerate(requests):
            file = pathlib.Path(folder, str(index))
            file.write_bytes(content)
            files.append(str(file))
        arguments = [str(program), str(port), str(int(pause_seconds * 1e6)), str(rounds), *files]
        output = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True).stdout
    seconds = [int(line) / 1e9 for line in output.split()]
    return [seconds[index :: len(requests)] for index in range(len(requests))]
