"""Pages through a forward at their largest size, and the cause where no answer comes."""

import contextlib

import pytest

from fleet import port_forward
from fleet.port_forward import CannotForward, Forward, PodPort
from tests.fakes import connections

POD = PodPort("koordinator-system", "koord-scheduler-7c9f", 10263)


@contextlib.asynccontextmanager
async def forwarded(answer, written=b""):
    async def serve(reader, writer):
        with contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()

    async with connections.served(serve) as port:
        yield Forward(POD, port, bytearray(written))


async def test_a_page_of_exactly_the_largest_size_is_read(monkeypatch):
    monkeypatch.setattr(port_forward, "_LARGEST_PAGE_BYTES", 8)
    async with forwarded(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n12345678") as forward:
        assert await forward.get("/") == (200, b"12345678")
    async with forwarded(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789") as forward:
        with pytest.raises(CannotForward, match="more than 8 bytes"):
            await forward.get("/")


async def test_without_an_answer_the_last_line_of_kubectl_is_the_cause():
    async with forwarded(b"", b"Forwarding\nlost connection to pod\n\n") as forward:
        with pytest.raises(CannotForward, match=r"no answer: lost connection to pod$"):
            await forward.get("/")


async def test_without_a_line_of_kubectl_the_error_of_the_connection_is_the_cause():
    async with forwarded(b"") as forward:
        with pytest.raises(CannotForward, match=r"no answer: .*disconnected"):
            await forward.get("/")
