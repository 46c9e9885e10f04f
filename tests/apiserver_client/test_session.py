import asyncio
import contextlib
import dataclasses
import datetime as dt
import logging

import pytest

from apiserver_client import connection, errors, objects, resources, session
from tests.fakes import apiserver, certificates, connections

NODE = "/api/v1/nodes/n"
OK = apiserver.Answer({"metadata": {"name": "n"}})


async def get_node(api):
    return await objects.get(api, resources.NODES, "n")


async def streamed(api):
    call = errors.Call("GET", NODE, "watch", "nodes")
    async with api.stream(call, parameters={"watch": "true"}, silence_seconds=5.0) as chunks:
        return b"".join([chunk async for chunk in chunks])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def own(folder):
    return certificates.make(folder, "own")


@pytest.fixture(scope="module")
def foreign(folder):
    return certificates.make(folder, "foreign")


async def test_requests_name_the_program_and_ask_for_plain_json(server):
    server.on("GET", NODE, OK)
    async with server.session() as api:
        await get_node(api)
    headers = server.requests[0].headers
    assert headers["user-agent"] == "test/1"
    assert (headers["accept"], headers["accept-encoding"]) == ("application/json", "identity")


async def test_requests_of_an_impersonation_name_the_user(server):
    server.on("GET", NODE, OK)
    to = dataclasses.replace(
        connection.Connection(server.url, "test"), impersonated_user="jane", impersonated_groups=("viewers",)
    )
    async with session.connect(to, user_agent="test/1") as api:
        await get_node(api)
    headers = server.requests[0].headers
    assert (headers["impersonate-user"], headers["impersonate-group"]) == ("jane", "viewers")


async def test_a_connection_is_used_again(server):
    server.on("GET", NODE, OK)
    async with server.session() as api:
        for _ in range(3):
            await get_node(api)
    assert server.connections == 1


async def test_proxies_of_the_environment_are_not_used(server, monkeypatch, closed_port):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
    server.on("GET", NODE, OK)
    async with server.session() as api:
        assert await get_node(api) == OK.document


async def test_the_proxy_of_the_kubeconfig_is_used(server):
    server.on("GET", NODE, OK)
    async with server.session(server="http://kube.invalid", proxy_url=server.url) as api:
        assert await get_node(api) == OK.document
    assert server.requests[0].headers["host"] == "kube.invalid"


async def test_a_call_and_a_watch_go_through_a_proxy_that_wants_a_password(own):
    asked = []

    async def copy(reader, writer):
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    async def tunnel(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head)
        host, port = head.split(" ")[1].rsplit(":", 1)
        beyond_reader, beyond_writer = await asyncio.open_connection(host, port)
        with contextlib.closing(beyond_writer):
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await asyncio.gather(copy(reader, beyond_writer), copy(beyond_reader, writer))

    async with apiserver.running(own.server_context()) as server:
        server.on("GET", NODE, OK)
        server.on("WATCH", NODE, apiserver.Stream(b"one\n"))
        async with connections.served(tunnel) as port:
            url = f"http://Aladdin:open%20sesame@127.0.0.1:{port}"
            async with server.session(ca_path=own.certificate_path, proxy_url=url) as api:
                assert await get_node(api) == OK.document
                assert await streamed(api) == b"one\n"
    assert "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==" in asked[0]  # the example of RFC 7617


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1080", "localhost:3128", "http://"])
async def test_a_proxy_of_another_kind_is_named(server, url):
    with pytest.raises(errors.NoCredentials, match=f"the test: proxy-url is '{url}', want http://HOST:PORT"):
        async with server.session(proxy_url=url):
            pass


async def test_an_address_of_ipv6_is_named_in_brackets(server):
    server.on("GET", NODE, OK)
    async with server.session(server="http://[fd00::1]:6443", proxy_url=server.url) as api:
        await get_node(api)
    assert server.requests[0].headers["host"] == "[fd00::1]:6443"


@pytest.mark.parametrize("url", ["http://kube:port", "http://bücher.example", "kube:6443", "ftp://kube"])
async def test_names_a_malformed_server_url(url):
    async with apiserver.running() as server, server.session(server=url) as api:
        with pytest.raises(errors.Unreachable, match=rf"cannot reach {url}: .* \(the test\)"):
            await get_node(api)


async def test_a_refused_connection_names_server_and_source_of_the_credentials():
    async with apiserver.running() as server:
        pass
    async with server.session() as api:
        with pytest.raises(errors.Unreachable) as caught:
            await get_node(api)
    assert str(caught.value).startswith(f"GET {NODE}: cannot reach {server.url}: [Errno 111]")
    assert str(caught.value).endswith("(the test)")


@pytest.mark.parametrize(
    "timeouts", [session.Timeouts(read=0.02), session.Timeouts(request=0.02)], ids=["read", "whole request"]
)
async def test_a_missing_answer_is_unreachable(server, timeouts):
    server.on("GET", NODE, apiserver.HANG)
    async with server.session(timeouts=timeouts) as api:
        with pytest.raises(errors.Unreachable, match=f"{server.url} did not answer in time"):
            await get_node(api)


async def test_an_incomplete_answer_is_unreachable(server):
    server.on("GET", NODE, apiserver.Stream(b'{"metadata":', apiserver.ABORT))
    async with server.session() as api:
        with pytest.raises(errors.Unreachable, match="cannot reach"):
            await get_node(api)


@pytest.mark.parametrize("sent", [b"", b"5\r\nab", b"2\r\nabcd"], ids=["no chunk", "half a chunk", "too long"])
async def test_an_incomplete_or_malformed_stream_is_unreachable(sent):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + sent)
        writer.close()

    async with connections.served(serve) as port:
        to = connection.Connection(f"http://127.0.0.1:{port}", "the test")
        async with session.connect(to, user_agent="test/1") as api:
            with pytest.raises(errors.Unreachable, match=f"GET {NODE}: cannot reach {to.server}: .*chunk|complete"):
                await streamed(api)


@pytest.mark.parametrize(
    "begin",
    [b"HTTP/1.1 200 OK\r\nX: ", *(b"HTTP/1.1 %d No\r\nContent-Length: 1000\r\n\r\n" % code for code in (401, 503))],
    ids=["header", "401", "503"],
)
async def test_a_stream_that_begins_in_drips_is_unreachable(begin):
    async def drip(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(begin)
        while True:
            writer.write(b" ")
            await asyncio.sleep(0.01)

    call = errors.Call("GET", NODE, "watch", "nodes")
    async with connections.served(drip) as port:
        to = connection.Connection(f"http://127.0.0.1:{port}", "the test")
        async with session.connect(to, user_agent="test/1", timeouts=session.Timeouts(request=0.1)) as api:
            with pytest.raises(errors.Unreachable, match="did not answer in time"):
                async with asyncio.timeout(5), api.stream(call, parameters={}, silence_seconds=0.1):
                    pass


async def test_a_login_page_instead_of_json_is_a_decode_error(server):
    server.on("GET", NODE, apiserver.Answer(b"<html>please log in"))
    async with server.session() as api:
        with pytest.raises(errors.DecodeError, match=f"GET {NODE}: unexpected answer: JSON is malformed"):
            await get_node(api)


async def test_a_redirect_is_not_followed(server):
    server.on("GET", NODE, apiserver.Answer(b"", 302, (("Location", "http://login.invalid/"),)))
    async with server.session() as api:
        with pytest.raises(errors.StatusError, match="302"):
            await get_node(api)


async def test_a_server_of_the_given_authority_is_trusted(own):
    async with apiserver.running(own.server_context()) as server:
        server.on("GET", NODE, OK)
        async with server.session(ca_path=own.certificate_path) as api:
            assert await get_node(api) == OK.document
        async with server.session(ca_data=own.certificate_path.read_bytes()) as api:
            assert await get_node(api) == OK.document


async def test_a_server_of_another_authority_is_not_trusted(own, foreign):
    async with (
        apiserver.running(foreign.server_context()) as server,
        server.session(ca_path=own.certificate_path) as api,
    ):
        with pytest.raises(errors.Untrusted) as caught:
            await get_node(api)
    assert str(caught.value) == (
        f"GET {NODE}: no TLS with {server.url}: self-signed certificate; the certificates come from the test"
    )


async def test_a_name_that_the_certificate_does_not_have_can_be_given(folder):
    named = certificates.make(folder, "named", alternative="DNS:kube.example")
    async with apiserver.running(named.server_context()) as server:
        server.on("GET", NODE, OK)
        async with server.session(ca_path=named.certificate_path) as api:
            with pytest.raises(errors.Untrusted, match="IP address mismatch"):
                await get_node(api)
        async with server.session(ca_path=named.certificate_path, tls_server_name="kube.example") as api:
            assert await get_node(api) == OK.document


async def test_a_client_certificate_logs_in(own, foreign):
    async with apiserver.running(own.server_context(trusted_clients=foreign)) as server:
        server.on("GET", NODE, OK)
        mine = {"client_certificate_data": foreign.certificate_path.read_bytes(), "client_key_path": foreign.key_path}
        async with server.session(ca_path=own.certificate_path, **mine) as api:
            assert await get_node(api) == OK.document
        async with server.session(ca_path=own.certificate_path) as api:
            with pytest.raises(errors.Unreachable):
                await get_node(api)


async def test_a_server_that_does_not_answer_to_tls_is_unreachable(server, own):
    url = server.url.replace("http:", "https:")
    timeouts = session.Timeouts(connect=0.02)
    async with server.session(server=url, ca_path=own.certificate_path, timeouts=timeouts) as api:
        with pytest.raises(errors.Unreachable, match=f"cannot reach {url}"):
            await get_node(api)


async def test_a_warning_of_the_apiserver_is_logged_once(server, caplog):
    warning = ("Warning", '299 - "unknown field \\"status.prediction\\""')
    server.on("PUT", NODE + "/status", apiserver.Answer(headers=(warning,)))
    async with server.session() as api:
        with caplog.at_level(logging.WARNING, logger="apiserver_client"):
            for _ in range(3):
                await objects.replace(api, resources.NODES, "n", {}, subresource="status")
    assert len(caplog.messages) == 1
    assert "unknown field" in caplog.text


async def test_a_server_with_ever_new_warnings_fills_neither_the_log_nor_the_memory(server, caplog):
    for number in range(100):
        warning = ("Warning", f'299 - "field {number}"')
        server.on("GET", NODE, apiserver.Answer({"metadata": {"name": "n"}}, headers=(warning,)))
    async with server.session() as api:
        with caplog.at_level(logging.WARNING, logger="apiserver_client"):
            for _ in range(100):
                await get_node(api)
    assert len(caplog.messages) == 64


async def test_cancelling_a_call_closes_its_connection(server):
    server.on("GET", NODE, apiserver.HANG)
    async with server.session() as api:
        task = asyncio.create_task(get_node(api))
        await server.until(lambda: server.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until(lambda: server.hung_up)


async def patch_node(api):
    return await objects.merge_patch(api, resources.NODES, "n", {}, subresource="status")


async def test_a_write_is_not_sent_again_after_a_401_when_leadership_is_lost_meanwhile(tmp_path):
    token, leads, sent = tmp_path / "token", [True], []
    token.write_text("old")

    async def refuse(reader, writer):
        sent.append(await reader.readuntil(b"\r\n\r\n"))
        token.write_text("new")
        leads[0] = False
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async with connections.served(refuse) as port:
        to = connection.Connection(f"http://127.0.0.1:{port}", "the test", token_path=token)
        async with session.connect(to, user_agent="test/1", may_write=lambda: leads[0]) as api:
            with pytest.raises(errors.NotLeader, match=r"PATCH .*: write blocked"):
                await patch_node(api)
    assert len(sent) == 1


async def test_a_write_that_waits_for_a_connection_is_not_sent_after_leadership_is_lost(server, monkeypatch):
    monkeypatch.setattr(session, "_MOST_CONNECTIONS", 1)
    answered, leads = asyncio.Event(), [True]
    server.on("GET", NODE, apiserver.Stream(apiserver.After(answered), b"{}"))
    server.on("PATCH", NODE + "/status", OK)
    async with server.session(may_write=lambda: leads[0]) as api:
        read = asyncio.create_task(get_node(api))
        await server.until(lambda: server.requests)
        write = asyncio.create_task(patch_node(api))
        await asyncio.sleep(0.01)  # now it waits
        leads[0] = False
        answered.set()
        await read
        with pytest.raises(errors.NotLeader):
            await write
        assert not server.asked("PATCH")
        leads[0] = True
        assert await patch_node(api) == OK.document  # the session still works


def dated(*dates):
    return apiserver.Answer({"metadata": {"name": "n"}}, headers=tuple(("Date", each) for each in dates))


async def test_the_clock_of_the_apiserver_is_that_of_its_last_answer(server):
    server.on("GET", NODE, dated("Wed, 21 Oct 2026 07:28:00 GMT"), dated("Wed, 21 Oct 2026 09:28:01 +0200"))
    async with server.session() as api:
        assert api.server_time is None
        for second in (0, 1):
            await objects.get(api, resources.NODES, "n")
            assert api.server_time == dt.datetime(2026, 10, 21, 7, 28, second, tzinfo=dt.UTC)
            assert api.server_time.utcoffset() == dt.timedelta(0)
        await asyncio.sleep(0.05)
        assert dt.timedelta(seconds=0.05) <= api.server_now - api.server_time < dt.timedelta(seconds=5)


@pytest.mark.parametrize("dates", [[], ["yesterday"], [""]])
async def test_an_answer_without_a_readable_time_states_none(server, dates):
    server.on("GET", NODE, dated("Wed, 21 Oct 2026 07:28:00 GMT"), dated(*dates))
    async with server.session() as api:
        for _ in range(2):
            await objects.get(api, resources.NODES, "n")
        assert api.server_time is None


async def test_a_write_of_a_follower_opens_no_connection(server):
    server.on("PATCH", NODE + "/status", OK)
    leads = False
    async with server.session(may_write=lambda: leads) as api:
        with pytest.raises(errors.NotLeader, match="PATCH /api/v1/nodes/n/status: write blocked: not the leader"):
            await patch_node(api)
        assert (server.requests, server.connections) == ([], 0)
        leads = True
        assert await patch_node(api) == OK.document


async def test_a_write_of_a_follower_runs_no_credential_program(server, tmp_path):
    program = connection.ExecCommand("client.authentication.k8s.io/v1", (str(tmp_path / "absent"),))
    async with server.session(may_write=lambda: False, exec_command=program) as api:
        with pytest.raises(errors.NotLeader):
            await patch_node(api)
        with pytest.raises(errors.NoCredentials, match="cannot run the credential program"):
            await objects.get(api, resources.NODES, "n")
