"""The InfluxDB client against a real HTTP server: requests sent, and the meaning of each response.

The responses of a real InfluxDB are tested in e2e/cases/agent/test_influxdb_history.py.
"""

import asyncio
import contextlib
import socket

import pytest

from koordlet.influxdb_exporter import client
from koordlet.influxdb_exporter.writer import Failure, WriteFailed
from tests.fakes import apiserver, certificates

WRITE = "/api/v2/write"
TAKEN = apiserver.Answer(b"", 204)
LINES = ["m,node=n f=1.0 1", "m,node=n f=2.0 2"]
TOKEN = "a-secret-token"


@pytest.fixture
def target(tmp_path):
    """Return a target at `url`, with an existing token file."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")

    def at(url, **changes):
        return client.InfluxDbTarget(url, **({"org": "o", "bucket": "b", "token_file": f"{tmp_path}/token"} | changes))

    return at


@contextlib.asynccontextmanager
async def answering(*answers, tls=None):
    async with apiserver.running(tls) as server:
        server.on("POST", WRITE, *answers)
        yield server


async def failure_of(destination, timeout_ms=2000):
    with pytest.raises(WriteFailed) as caught:
        await asyncio.to_thread(destination.write, LINES, timeout_ms)
    assert TOKEN not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


async def test_points_go_in_one_request_with_the_token_in_seconds(target):
    async with answering(TAKEN) as server:
        await asyncio.to_thread(client.InfluxDb(target(server.url)).write, LINES, 2000)
    (request,) = server.requests
    assert request.body.decode().splitlines() == LINES
    assert request.query == {"org": "o", "bucket": "b", "precision": "s"}
    assert request.headers["authorization"] == f"Token {TOKEN}"


async def test_a_rotated_token_is_used_from_the_next_write_on(target, tmp_path):
    async with answering(TAKEN) as server:
        destination = client.InfluxDb(target(server.url))
        await asyncio.to_thread(destination.write, LINES, 2000)
        (tmp_path / "token").write_text("another")
        await asyncio.to_thread(destination.write, LINES, 2000)
    assert [each.headers["authorization"] for each in server.requests] == [f"Token {TOKEN}", "Token another"]


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (400, Failure.REFUSED),
        (401, Failure.UNAUTHORIZED),
        (403, Failure.UNAUTHORIZED),
        (404, Failure.NOT_FOUND),
        (413, Failure.REFUSED),
        (418, Failure.UNEXPECTED),
        (422, Failure.REFUSED),
        (429, Failure.OVERLOADED),
        (500, Failure.SERVER_ERROR),
        (503, Failure.OVERLOADED),
    ],
)
async def test_a_refusal_has_a_kind_and_the_client_never_retries(target, status, failure):
    async with answering(apiserver.Answer({"code": "x", "message": "because\nof this"}, status)) as server:
        problem = await failure_of(client.InfluxDb(target(server.url)))
        assert len(server.requests) == 1
    assert problem.failure is failure
    assert f"{server.url} returned status {status}: because of this" in str(problem)


async def test_a_bad_token_and_a_missing_bucket_are_reported_with_the_fix(target, tmp_path):
    async with answering(apiserver.Answer({}, 401), apiserver.Answer({}, 404)) as server:
        destination = client.InfluxDb(target(server.url))
        assert f"{tmp_path}/token needs a token that may write to bucket 'b'" in str(await failure_of(destination))
        assert "create bucket 'b' in org 'o'" in str(await failure_of(destination))


async def test_retry_after_of_a_busy_server_is_returned(target):
    async with answering(apiserver.Answer({}, 503, (("Retry-After", "17"),))) as server:
        assert (await failure_of(client.InfluxDb(target(server.url)))).retry_after_seconds == 17.0


async def test_the_token_does_not_follow_a_redirect(target):
    async with answering(TAKEN) as elsewhere:
        moved = apiserver.Answer(b"", 307, (("Location", elsewhere.url + WRITE),))
        async with answering(moved) as server:
            problem = await failure_of(client.InfluxDb(target(server.url)))
        assert elsewhere.requests == []
    assert problem.failure is Failure.UNEXPECTED


async def test_a_server_that_accepts_everything_is_not_an_influxdb(target):
    async with answering(apiserver.Answer(b"<html>Welcome", 200)) as server:
        problem = await failure_of(client.InfluxDb(target(server.url)))
    assert "returned status 200, want 204" in str(problem)


async def test_a_server_that_never_answers_times_out_once(target):
    async with answering(apiserver.HANG) as server:
        problem = await failure_of(client.InfluxDb(target(server.url)), timeout_ms=1000)
        assert len(server.requests) == 1
    assert problem.failure is Failure.TIMEOUT
    assert f"{server.url} did not respond within 1000 ms" in str(problem)


async def test_a_broken_connection_is_unreachable_and_the_next_write_reconnects(target):
    async with answering(apiserver.ABORT, TAKEN) as server:
        destination = client.InfluxDb(target(server.url))
        assert (await failure_of(destination)).failure is Failure.UNREACHABLE
        await asyncio.to_thread(destination.write, LINES, 2000)
        assert server.connections == 2


async def test_a_refused_connection_is_unreachable(target):
    with socket.socket() as reserved:  # bound, not listening
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        problem = await failure_of(client.InfluxDb(target(url)))
    assert problem.failure is Failure.UNREACHABLE
    assert f"{url} cannot be reached" in str(problem)


async def test_tls_is_verified_against_the_ca_file(target, tmp_path):
    own, other = certificates.make(tmp_path, "own"), certificates.make(tmp_path, "other")
    async with answering(TAKEN, tls=own.server_context()) as server:
        trusting = client.InfluxDb(target(server.url, ca_file=str(own.certificate_path)))
        await asyncio.to_thread(trusting.write, LINES, 2000)
        for ca_file in (str(other.certificate_path), ""):
            problem = await failure_of(client.InfluxDb(target(server.url, ca_file=ca_file)))
            assert problem.failure is Failure.UNREACHABLE
            assert "certificate" in str(problem).lower()
        assert len(server.requests) == 1


@pytest.mark.parametrize("content", [None, b"", b" \n", b"two words", b"a\nb", b"\xff\xfe", "schl\u00fcssel".encode()])
async def test_a_token_that_cannot_be_used_is_named_by_its_file_and_not_shown(target, tmp_path, content):
    file = tmp_path / "token"
    file.unlink() if content is None else file.write_bytes(content)
    problem = await failure_of(client.InfluxDb(target("http://127.0.0.1:1")))
    assert problem.failure is Failure.CREDENTIALS
    assert str(file) in str(problem)
    assert "words" not in str(problem)
