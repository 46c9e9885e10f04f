"""Faulty servers over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from component_base.http_client import HttpClient, Reach, RequestFailed
from tests.fakes import certificates, connections, metrics_source
from tests.fakes.certificates import Certificate
from tests.fakes.metrics_source import Answer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"


@contextlib.asynccontextmanager
async def sending(part: bytes, pause_seconds: float) -> AsyncIterator[str]:
    """Serve the same part repeatedly until the client disconnects."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD)
            while not writer.is_closing():
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause_seconds)
        writer.close()

    async with connections.served(serve) as port:
        yield f"http://127.0.0.1:{port}"


async def failure(
    address: str, *, timeout_seconds: float = 5.0, token: str = "t", largest_bytes: int = 64 << 20
) -> str:
    reach = Reach(address, lambda: {"Authorization": token}, timeout_seconds, largest_bytes=largest_bytes)
    source = HttpClient(reach)
    try:
        with pytest.raises(RequestFailed) as failed:
            await source.send("GET", "/page")
        return str(failed.value)
    finally:
        await source.close()


async def test_a_slow_response_fails_after_the_time_out() -> None:
    async with sending(b" ", 0.01) as address:
        assert await failure(address, timeout_seconds=0.1) == f"{address}/page did not respond within 0.1 s"


async def test_an_endless_response_fails_at_the_size_limit() -> None:
    async with sending(b" " * 400_000, 0) as address:
        assert await failure(address, largest_bytes=1 << 20) == f"{address}/page returned more than 1 MiB"


async def test_the_error_about_an_invalid_token_does_not_show_it(closed_port: int) -> None:
    address = f"http://127.0.0.1:{closed_port}"
    message = await failure(address, token="schlüssel")
    assert message.startswith(f"{address}/page cannot be reached: ")
    assert "schl" not in message


async def test_a_redirect_is_not_followed_and_its_status_is_reported() -> None:
    with metrics_source.answering(lambda _asked: Answer(b"moved", 302)) as source:
        assert await failure(source.address) == f"{source.address}/page returned 302: moved"
        assert len(source.asked) == 1


@contextlib.asynccontextmanager
async def https(certificate: Certificate, authority: Path) -> AsyncIterator[HttpClient]:
    """Serve an empty page with a certificate; yield a client that trusts an authority."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with connections.served(serve, certificate.server_context()) as port:
        source = HttpClient(Reach(f"https://127.0.0.1:{port}", dict, 5.0, ca_file=str(authority)))
        yield source
        await source.close()


async def test_a_renewed_authority_counts_from_the_next_request_on(tmp_path: Path) -> None:
    first, second = (certificates.make(tmp_path, name) for name in ("first", "second"))
    authority = tmp_path / "ca.crt"
    shutil.copy(first.certificate_path, authority)
    async with https(first, authority) as of_old, https(second, authority) as of_new:
        await of_old.send("GET", "/")
        with pytest.raises(RequestFailed, match="cannot be reached"):
            await of_new.send("GET", "/")
        second.certificate_path.replace(authority)  # as kubelet renews a mounted Secret
        await of_new.send("GET", "/")
        with pytest.raises(RequestFailed, match="cannot be reached"):
            await of_old.send("GET", "/")
