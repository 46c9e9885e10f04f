"""HTTP and TLS of the extender, with real sockets and real certificates of openssl."""

import asyncio
import contextlib
import ssl

import httpx2
import pytest

from component_base.listening import CannotListen
from scheduler_plugin.extender import server as extender_server
from scheduler_plugin.extender.server import MOST_BODY_BYTES, ExtenderServer
from scheduler_plugin.extender.tls import TlsFiles, UnusableCertificate
from scheduler_plugin.extender.verbs import BadExtenderCall
from tests.fakes import certificates


def verb(body, _now):
    if body == b"wrong":
        raise BadExtenderCall("cannot decode the request body")
    if body == b"fault":
        raise ZeroDivisionError
    return b"[%d]" % len(body)


@contextlib.asynccontextmanager
async def serving(**options):
    server = ExtenderServer("127.0.0.1", 0, {"filter": verb}, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def post(server, content, *, path="/filter", scheme="http", **options):
    async with httpx2.AsyncClient(**options) as client:
        return await client.post(f"{scheme}://127.0.0.1:{server.port}{path}", content=content)


@pytest.mark.parametrize(
    ("path", "content", "status", "text"),
    [
        ("/filter", b"right", 200, "[5]"),
        ("/filter", b"wrong", 400, "cannot decode the request body"),
        ("/filter", b"fault", 500, "internal error, see the log"),
        ("/bind", b"right", 404, "Not Found"),
        ("/filter", b" " * (MOST_BODY_BYTES + 1), 413, "Maximum request body size"),
    ],
)
async def test_a_call_has_the_status_of_its_outcome_and_a_length(path, content, status, text):
    async with serving() as server:
        answer = await post(server, content, path=path)
    assert (answer.status_code, answer.headers["content-length"]) == (status, str(len(answer.content)))
    assert text in answer.text


async def test_calls_are_unavailable_until_the_first_lists_are_complete_and_all_are_counted():
    unsynced, counted = ["nodes"], []
    async with serving(unsynced=lambda: unsynced, observe=lambda *call: counted.append(call[:2])) as server:
        answer = await post(server, b"")
        assert (answer.status_code, answer.text) == (503, "not ready: waiting for the first list of nodes")
        unsynced.clear()
        assert (await post(server, b"")).status_code == 200
    assert counted == [("filter", 503), ("filter", 200)]


async def test_a_port_in_use_is_named():
    async with serving() as server:
        other = ExtenderServer("127.0.0.1", server.port, {})
        with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{server.port} for kube-scheduler"):
            await other.start()
        await other.stop()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return {name: certificates.make(folder, name) for name in ("first", "renewed", "scheduler", "stranger")}


@pytest.fixture
def files(made, tmp_path):
    """Return the files of a mounted Secret, whose contents `hold` changes."""
    held = TlsFiles(*(str(tmp_path / name) for name in ("tls.crt", "tls.key", "ca.crt")))

    def hold(certificate, key=None, authority="scheduler"):
        contents = (
            made[certificate].certificate_path, made[key or certificate].key_path, made[authority].certificate_path
        )  # fmt: skip
        for path, content in zip(held, contents, strict=True):
            (tmp_path / "next").write_bytes(content.read_bytes())
            (tmp_path / "next").rename(path)

    hold("first")
    return held, hold


async def status(server, trusted, caller):
    """Return the status of a call, None where there is no connection."""
    context = ssl.create_default_context(cafile=trusted.certificate_path)
    if caller is not None:
        context.load_cert_chain(caller.certificate_path, caller.key_path)
    try:
        return (await post(server, b"", scheme="https", verify=context)).status_code
    except (httpx2.TransportError, ssl.SSLError):
        return None


async def test_only_callers_of_the_authority_get_a_response(files, made):
    async with serving(tls=files[0]) as server:
        assert await status(server, made["first"], made["scheduler"]) == 200
        assert await status(server, made["stranger"], made["scheduler"]) is None
        assert await status(server, made["first"], made["stranger"]) is None
        assert await status(server, made["first"], None) is None


async def test_renewed_files_count_for_new_connections_and_unusable_ones_change_nothing(files, made, monkeypatch):
    monkeypatch.setattr(extender_server, "_CHECK_SECONDS", 0.02)
    tls, hold = files
    async with serving(tls=tls) as server, asyncio.timeout(20):
        follow = asyncio.create_task(server.follow_certificate())
        hold("renewed", "first")
        await asyncio.sleep(0.1)
        assert await status(server, made["first"], made["scheduler"]) == 200
        hold("renewed", authority="stranger")
        while await status(server, made["renewed"], made["stranger"]) != 200:
            await asyncio.sleep(0.02)
        assert await status(server, made["renewed"], made["scheduler"]) is None
        follow.cancel()


@pytest.mark.parametrize(("key", "words"), [("tls.crt", "want PEM files of a certificate, its key"), ("no", "No such")])
def test_files_that_cannot_be_loaded_are_named(files, tmp_path, key, words):
    tls = files[0]._replace(key=str(tmp_path / key))
    with pytest.raises(UnusableCertificate, match=f"cannot load {tls.certificate}, {tls.key}.*{words}"):
        tls.load()
