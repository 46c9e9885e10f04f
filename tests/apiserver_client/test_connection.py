"""The body of a chunked answer, split anywhere."""

import contextlib
import itertools
import logging
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_client import connection, errors, objects, resources
from tests.fakes import apiserver, certificates, credential_program


def encoded(chunks):
    """Encode as in RFC 9112, 7.1."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def decoded(body, pieces):
    return b"".join(body.decode(piece) for piece in pieces)


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(0, 400)))
def test_the_body_does_not_depend_on_how_the_bytes_are_split(chunks, cuts):
    sent = encoded(chunks)
    edges = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    body = connection.Body()
    assert decoded(body, [sent[a:b] for a, b in itertools.pairwise(edges)]) == b"".join(chunks)
    assert body.ended


@pytest.mark.parametrize("head", [b"3;name=value", b"003", b"3 ", b"3\t; x"])
def test_ignores_extensions_zeros_and_blanks_of_a_size(head):
    assert connection.Body().decode(head + b"\r\nabc\r\n") == b"abc"


def test_trailers_are_not_part_of_the_body():
    body = connection.Body()
    assert body.decode(b"1\r\na\r\n0\r\nDigest: x\r\n\r\n") == b"a"
    assert body.ended


@pytest.mark.parametrize(
    "sent",
    [b"<html>\r\n", b"\r\n", b"-3\r\nabc", b"0x3\r\nabc", b"+3\r\nabc", b"1_0\r\nabc", b"3\r\nabcd\r\n", b"1" * 5000],
)
def test_rejects_bytes_that_are_not_a_chunk(sent):
    with pytest.raises(connection.MalformedChunk):
        connection.Body().decode(sent)


NODE = "/api/v1/nodes/n"
OK = apiserver.Answer({"metadata": {"name": "n"}})


async def get_node(api):
    return await objects.get(api, resources.NODES, "n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def first(folder):
    return certificates.make(folder, "first")


@pytest.fixture(scope="module")
def second(folder):
    return certificates.make(folder, "second")


async def test_a_new_authority_is_trusted_and_the_old_one_no_longer(first, second, tmp_path):
    authority = tmp_path / "ca.crt"
    certificates.replace(authority, first.certificate_path)
    async with apiserver.running(first.server_context()) as old, apiserver.running(second.server_context()) as new:
        old.on("GET", NODE, OK)
        new.on("GET", NODE, OK)
        async with old.session(ca_path=authority) as of_old, new.session(ca_path=authority) as of_new:
            await get_node(of_old)
            with pytest.raises(errors.Untrusted):
                await get_node(of_new)
            certificates.replace(authority, second.certificate_path)
            await get_node(of_new)
            with pytest.raises(errors.Untrusted):
                await get_node(of_old)


async def test_a_new_client_certificate_is_used_from_the_next_request_on(first, second, tmp_path):
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificates.replace(certificate, first.certificate_path)
    certificates.replace(key, first.key_path)
    trusting_both = first.server_context(trusted_clients=first)
    trusting_both.load_verify_locations(second.certificate_path)
    async with apiserver.running(trusting_both) as server:
        server.on("GET", NODE, OK)
        files = {"client_certificate_path": certificate, "client_key_path": key}
        async with server.session(ca_path=first.certificate_path, **files) as api:
            for _ in range(2):
                await get_node(api)
            assert server.connections == 1
            certificates.replace(certificate, second.certificate_path)
            certificates.replace(key, second.key_path)
            for _ in range(2):
                await get_node(api)
            assert server.connections == 2


async def test_half_replaced_files_leave_the_last_certificates_in_use(first, second, tmp_path, caplog):
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificates.replace(certificate, first.certificate_path)
    certificates.replace(key, first.key_path)
    async with apiserver.running(first.server_context(trusted_clients=first)) as server:
        server.on("GET", NODE, OK)
        files = {"client_certificate_path": certificate, "client_key_path": key}
        async with server.session(ca_path=first.certificate_path, **files) as api:
            await get_node(api)
            certificates.replace(certificate, second.certificate_path)  # its key is still the first one
            with caplog.at_level(logging.WARNING):
                for _ in range(3):
                    await get_node(api)
            certificate.unlink()
            await get_node(api)
    assert caplog.text.count("keeping the last certificates") == 2, "once for each fault"


@pytest.fixture
def printing(tmp_path):
    """Return a program that prints what it was last given, and the certificate of a client."""

    def credential(of=None, **status):
        if of is not None:
            status["clientCertificateData"] = of.certificate_path.read_text()
            status["clientKeyData"] = of.key_path.read_text()
        return credential_program.printing(tmp_path, **status)

    return credential


async def test_the_certificate_of_a_program_identifies_the_client(first, second, printing):
    async with apiserver.running(first.server_context(trusted_clients=second)) as server:
        server.on("GET", NODE, OK)
        command = printing(second)
        async with server.session(ca_path=first.certificate_path, exec_command=command) as api:
            await get_node(api)
            await get_node(api)
        assert server.connections == 1
        assert "authorization" not in server.requests[0].headers


async def test_after_a_401_another_certificate_comes_with_a_new_connection(first, second, printing):
    refused = apiserver.status(401, "Unauthorized", "Unauthorized")
    async with apiserver.running(first.server_context(trusted_clients=second)) as server:
        server.on("GET", NODE, OK, refused, OK)
        command = printing(second)
        async with server.session(ca_path=first.certificate_path, exec_command=command) as api:
            await get_node(api)
            printing(second, token="t")
            await get_node(api)
        assert [request.headers.get("authorization") for request in server.requests] == [None, None, "Bearer t"]


async def test_an_unusable_certificate_of_a_program_is_named(first, printing):
    async with apiserver.running(first.server_context()) as server:
        command = printing(clientCertificateData="x", clientKeyData="y")
        async with server.session(ca_path=first.certificate_path, exec_command=command) as api:
            with pytest.raises(errors.NoCredentials, match="cannot load the client certificate of the credential prog"):
                await get_node(api)


def test_certificates_of_a_program_leave_no_open_file(first, second):
    """A certificate that cannot be loaded leaves none either."""
    open_files = []
    to = connection.Connection("https://127.0.0.1:1", "the test", ca_path=first.certificate_path)
    held = connection.Certificates(to)
    for of in (first, second, None) * 3:
        pem = of.certificate_path.read_bytes() + of.key_path.read_bytes() if of else b"x"
        with contextlib.suppress(errors.NoCredentials):
            held.current(connection.Credential(certificate=pem))
        open_files.append(len(list(pathlib.Path("/proc/self/fd").iterdir())))
    assert len(set(open_files)) == 1


def test_the_authorities_of_the_environment_are_not_those_of_the_cluster(tmp_path, monkeypatch):
    cluster = connection.Connection(server="https://127.0.0.1:6443", origin="test")
    wanted = cluster.tls_context().cert_store_stats()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.make(tmp_path, "other").certificate_path))
    assert cluster.tls_context().cert_store_stats() == wanted


def test_user_and_password_of_an_address_become_the_credentials_and_are_not_shown():
    to = connection.Connection("https://me:hunter%402@host:6443/p", "the test")
    assert (to.server, to.username, to.password) == ("https://host:6443/p", "me", "hunter@2")
    assert "hunter" not in repr(to)
