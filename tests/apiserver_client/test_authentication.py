"""Tokens of requests: read again when they rotate, requested again when they are refused."""

import stat

import pytest

from apiserver_client import authentication, connection, errors, objects, resources
from tests.fakes import apiserver

NODE = "/api/v1/nodes/n"
OK = apiserver.Answer({"metadata": {"name": "n"}})
REFUSED = apiserver.status(401, "Unauthorized", "Unauthorized")


def tokens(server):
    return [request.headers.get("authorization") for request in server.requests]


async def get_node(api):
    return await objects.get(api, resources.NODES, "n")


async def test_a_token_file_is_read_again_after_a_401_and_the_call_repeated_once(server, tmp_path):
    file = tmp_path / "token"
    file.write_text("old\n")
    server.on("GET", NODE, OK, REFUSED, OK)
    async with server.session(token_path=file) as api:
        await get_node(api)
        file.write_text("new")
        await get_node(api)
    assert tokens(server) == ["Bearer old", "Bearer old", "Bearer new"]


async def test_a_401_without_a_new_token_is_final(server, tmp_path):
    file = tmp_path / "token"
    file.write_text("only")
    server.on("GET", NODE, REFUSED)
    async with server.session(token_path=file) as api:
        with pytest.raises(errors.Unauthorized, match="expired or belongs to another cluster"):
            await get_node(api)
    assert tokens(server) == ["Bearer only"]


async def test_the_body_travels_with_the_repeated_call(server, tmp_path):
    file = tmp_path / "token"
    file.write_text("old")
    server.on("PUT", NODE, apiserver.Answer(REFUSED.document, 401), OK)
    async with server.session() as api:
        api._authentication = authentication.TokenFileAuth(iter(["old", "new"]).__next__)
        await objects.replace(api, resources.NODES, "n", {"spec": {}})
    assert [request.body for request in server.requests] == [b'{"spec":{}}'] * 2


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


async def test_a_token_file_is_read_again_each_minute(server):
    held, clock, reads = ["first"], Clock(), []

    def read():
        reads.append(clock.now)
        return held[0]

    server.on("GET", NODE, OK)
    async with server.session() as api:
        api._authentication = authentication.TokenFileAuth(read, clock)
        for clock.now in (0.0, 30.0, 59.9, 60.0, 61.0):
            held[0] = f"at {clock.now:g}"
            await get_node(api)
    assert tokens(server) == ["Bearer at 0"] * 3 + ["Bearer at 60"] * 2
    assert reads == [0.0, 60.0]


async def test_keeps_the_last_token_while_its_file_is_absent(server, tmp_path):
    file, clock = tmp_path / "token", Clock()
    file.write_text("good")
    server.on("GET", NODE, OK)
    async with server.session() as api:
        api._authentication = authentication.TokenFileAuth(
            connection.Connection("", "", token_path=file).read_token, clock
        )
        await get_node(api)
        file.unlink()
        clock.now = 100.0
        await get_node(api)
    assert tokens(server) == ["Bearer good"] * 2


@pytest.mark.parametrize(("content", "expected"), [(None, "cannot read the token"), (" \n", "is empty")])
async def test_names_an_empty_token_file(server, tmp_path, content, expected):
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    async with server.session(token_path=file) as api:
        with pytest.raises(errors.NoCredentials, match=expected):
            await get_node(api)


async def test_a_user_with_a_password_logs_in_with_it(server):
    server.on("GET", NODE, OK)
    async with server.session(username="Aladdin", password="open sesame") as api:
        await get_node(api)
    assert tokens(server) == ["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]  # the example of RFC 7617


@pytest.fixture
def program(tmp_path):
    def write(script):
        path = tmp_path / "login"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        return connection.ExecCommand(
            "client.authentication.k8s.io/v1", (str(path), "--cluster", "c"), (("WHO", "me"),), "install login"
        )

    return write


COUNTING = """
count=$(cat "$0.count" 2>/dev/null || echo 0); echo $((count + 1)) > "$0.count"
echo "{\\"status\\": {\\"token\\": \\"$WHO-$2-$count\\"}}"
"""


async def test_runs_the_program_once_and_again_after_a_401(server, program):
    server.on("GET", NODE, OK, OK, REFUSED, OK)
    async with server.session(exec_command=program(COUNTING)) as api:
        for _ in range(3):
            await get_node(api)
    assert tokens(server) == ["Bearer me-c-0"] * 3 + ["Bearer me-c-1"]


async def test_passes_the_api_version_to_the_program(server, program, tmp_path):
    script = f'printf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "{{\\"status\\": {{\\"token\\": \\"t\\"}}}}"'
    server.on("GET", NODE, OK)
    async with server.session(exec_command=program(script)) as api:
        await get_node(api)
    assert '"apiVersion": "client.authentication.k8s.io/v1"' in (tmp_path / "info").read_text()


@pytest.mark.parametrize(
    ("script", "expected"),
    [("echo no session >&2; exit 3", "login ended with 3: no session"), ("echo hello", "login printed no token")],
)
async def test_names_a_program_that_fails(server, program, script, expected):
    async with server.session(exec_command=program(script)) as api:
        with pytest.raises(errors.NoCredentials, match=expected):
            await get_node(api)


async def test_a_program_that_is_missing_comes_with_its_hint(server):
    command = connection.ExecCommand("client.authentication.k8s.io/v1", ("/none/login",), install_hint="get login")
    async with server.session(exec_command=command) as api:
        with pytest.raises(errors.NoCredentials, match=r"/none/login: .*; get login"):
            await get_node(api)
