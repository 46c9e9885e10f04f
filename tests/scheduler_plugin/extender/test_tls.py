"""TLS of the extender, with real sockets and real certificates of openssl."""

import asyncio
import ssl
from http import HTTPStatus

import pytest

from scheduler_plugin.extender.http_server import ExtenderServer, Response
from scheduler_plugin.extender.tls import ServerTls, UnusableCertificate
from tests.fakes import certificates

REQUEST = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return {name: certificates.make(folder, name) for name in ("first", "renewed", "scheduler", "stranger")}


@pytest.fixture
def files(made, tmp_path):
    """Write certificate and key of the server, as a mounted Secret: the paths stay, the contents change."""
    paths = tmp_path / "tls.crt", tmp_path / "tls.key"

    def hold(certificate, key=None):
        for path, held in zip(
            paths, (made[certificate].certificate_path, made[key or certificate].key_path), strict=True
        ):
            path.unlink(missing_ok=True)
            path.write_bytes(held.read_bytes())

    hold("first")
    return *(str(path) for path in paths), hold


async def response(port, trusted, caller=None):
    context = ssl.create_default_context(cafile=trusted.certificate_path)
    if caller:
        context.load_cert_chain(caller.certificate_path, caller.key_path)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(REQUEST)
        return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.transport.abort()


@pytest.fixture
async def serve():
    servers = []

    async def started(tls):
        server = ExtenderServer(
            "127.0.0.1", 0, lambda *_: Response(HTTPStatus.OK, b"[]"), max_body_bytes=9, tls=tls.current
        )
        servers.append(server)
        await server.start()
        return server.port

    yield started
    for server in servers:
        await server.stop()


async def test_a_caller_that_trusts_the_certificate_gets_a_response(serve, made, files):
    port = await serve(ServerTls(*files[:2]))
    assert (await response(port, made["first"])).startswith(b"HTTP/1.1 200 ")
    with pytest.raises(ssl.SSLCertVerificationError):
        await response(port, made["stranger"])


async def test_with_an_authority_only_its_callers_get_a_response(serve, made, files):
    port = await serve(ServerTls(*files[:2], str(made["scheduler"].certificate_path)))
    assert (await response(port, made["first"], made["scheduler"])).startswith(b"HTTP/1.1 200 ")
    for caller in (made["stranger"], None):
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await response(port, made["first"], caller)


async def test_a_renewed_certificate_serves_new_connections(serve, made, files):
    *paths, hold = files
    tls = ServerTls(*paths)
    port = await serve(tls)
    assert not tls.load()
    hold("renewed")
    assert tls.load()
    assert await response(port, made["renewed"])


async def test_a_certificate_without_its_key_is_named_and_the_last_certificate_stays(serve, made, files):
    *paths, hold = files
    tls = ServerTls(*paths)
    port = await serve(tls)
    hold("renewed", "first")
    with pytest.raises(UnusableCertificate, match=f"cannot load {paths[0]}, {paths[1]}: .*want PEM files"):
        tls.load()
    assert await response(port, made["first"])


def test_a_missing_file_is_named(files, tmp_path):
    with pytest.raises(UnusableCertificate, match="No such file or directory"):
        ServerTls(files[0], str(tmp_path / "nowhere"))


async def test_an_authority_that_is_removed_is_not_trusted_any_more(files, made, serve, tmp_path):
    authority = tmp_path / "ca.crt"
    authority.write_bytes(made["scheduler"].certificate_path.read_bytes())
    tls = ServerTls(*files[:2], str(authority))
    port = await serve(tls)
    assert await response(port, made["first"], made["scheduler"])
    authority.unlink()
    authority.write_bytes(made["stranger"].certificate_path.read_bytes())
    assert tls.load()
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await response(port, made["first"], made["scheduler"])
    assert await response(port, made["first"], made["stranger"])


async def test_peers_that_never_finish_their_handshake_keep_no_caller_out(files, made, serve):
    tls = ServerTls(*files[:2], str(made["scheduler"].certificate_path))
    port = await serve(tls)
    hostile = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
    for _reader, writer in hostile[::2]:
        writer.write(b"\x16\x03\x01\x02\x00\x01")
    assert (await response(port, made["first"], made["scheduler"])).startswith(b"HTTP/1.1 200")
    for _reader, writer in hostile:
        writer.transport.abort()


async def test_handshakes_of_one_address_interrupt_none_of_another(files, made, serve):
    port = await serve(ServerTls(*files[:2], str(made["scheduler"].certificate_path)))
    context = ssl.create_default_context(cafile=made["first"].certificate_path)
    context.load_cert_chain(made["scheduler"].certificate_path, made["scheduler"].key_path)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    hostile = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(100)]
    assert await hostile[0][0].read() == b""
    await writer.start_tls(context, server_hostname="127.0.0.1")
    writer.write(REQUEST)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    for _reader, each in (*hostile, (reader, writer)):
        each.transport.abort()
