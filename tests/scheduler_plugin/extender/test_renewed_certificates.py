"""A server that follows the files of its certificate."""

import asyncio
import contextlib
import logging
import os

from scheduler_plugin.extender import tls
from scheduler_plugin.extender.tls import ServerTls
from tests.fakes import certificates
from tests.scheduler_plugin.extender.test_slow_peers import until


async def test_each_renewal_is_loaded_and_a_broken_one_keeps_the_last_certificate(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(tls, "_CHECK_SECONDS", 0.005)
    caplog.set_level(logging.INFO, tls.log.name)
    made = certificates.make(tmp_path, "server")
    held, moments = tmp_path / "tls.crt", iter(range(1, 9))

    def hold(text):
        held.write_bytes(text)
        os.utime(held, (moment := next(moments), moment))

    whole = made.certificate_path.read_bytes()
    hold(whole)
    server = ServerTls(str(held), str(made.key_path))
    following = asyncio.create_task(server.follow())
    seen = [server.current()]
    try:
        async with asyncio.timeout(10):
            for _ in range(2):
                hold(whole)
                await until(lambda: server.current() is not seen[-1])
                seen.append(server.current())
            hold(b"no certificate")
            await until(lambda: any(each.levelno == logging.ERROR for each in caplog.records))
            assert server.current() is seen[-1]
            hold(whole)
            await until(lambda: server.current() is not seen[-1])
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
    loaded = [text for text in caplog.messages if text == f"loaded the renewed certificate {held}"]
    assert len(loaded) == 3
    assert any(text.endswith("; keeping the last certificate") for text in caplog.messages)
