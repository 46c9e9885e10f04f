"""TLS handshakes that are in progress while many others begin and end."""

import asyncio
import socket
import ssl
from http import HTTPStatus

from scheduler_plugin.extender import http_server
from scheduler_plugin.extender.http_server import ExtenderServer, Response
from scheduler_plugin.extender.tls import ServerTls
from tests.fakes import certificates
from tests.scheduler_plugin.extender.test_slow_peers import until
from tests.scheduler_plugin.extender.test_tls import REQUEST


async def test_handshakes_that_are_over_do_not_displace_one_in_progress(tmp_path):
    made = certificates.make(tmp_path, "server")
    tls = ServerTls(str(made.certificate_path), str(made.key_path))
    server = ExtenderServer(
        "127.0.0.1", 0, lambda *_: Response(HTTPStatus.OK, b"[]"), max_body_bytes=9, tls=tls.current
    )
    await server.start()
    loop = asyncio.get_running_loop()
    slow = socket.socket()
    slow.setblocking(False)
    try:
        async with asyncio.timeout(10):
            await loop.sock_connect(slow, ("127.0.0.1", server.port))
            await until(lambda: server._beginning)
            for _ in range(http_server.MOST_HANDSHAKES + 8):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"no TLS at all\r\n\r\n")
                await reader.read()
                writer.close()
            context = ssl.create_default_context(cafile=made.certificate_path)
            reader, writer = await asyncio.open_connection(sock=slow, ssl=context, server_hostname="127.0.0.1")
            writer.write(REQUEST)
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
            writer.transport.abort()
    finally:
        slow.close()
        await server.stop()
