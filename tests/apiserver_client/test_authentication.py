"""Tokens of requests: read again when they rotate, requested again when they are refused."""

import asyncio
import json
import pathlib
import stat
import time

import psutil
import pytest

from api_types.kubernetes import times
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
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {"interactive": False},  # it has no standard input
    }


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo no session >&2; echo at line 7 >&2; exit 3", "login ended with 3: no session$"),
        ("exit 4", "login ended with 4 and no message$"),
        ("exit 1", "login ended with 1 and no message$"),
        ("kill -9 $$", "login was ended by SIGKILL and no message$"),
        ("echo hello", "login printed no ExecCredential"),
        ("echo '{}'", "login printed no ExecCredential"),
        ("echo '{\"status\": {}}'", "login printed no token and no client certificate"),
        ('echo \'{"status": {"clientKeyData": "k"}}\'', "printed only one of clientCertificateData and"),
        ("yes", "login printed more than 1048576 bytes"),
    ],
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


# the life of a credential program

HANGING = 'sleep 600 & echo $$ $! > "$0.pids"; sleep 600'
STUBBORN = 'trap "" TERM HUP INT; sleep 600 & echo $$ $! > "$0.pids"; while true; do sleep 600; done'


async def started_by(command):
    """Return the processes of a program, once it runs."""
    while not (pids := written_by(command)).endswith("\n"):
        await asyncio.sleep(0.01)
    return [int(pid) for pid in pids.split()]


def written_by(command):
    path = pathlib.Path(command.argv[0] + ".pids")
    return path.read_text() if path.is_file() else ""


async def all_gone(pids):
    """Wait for the end of processes; a zombie that another process has to reap has ended."""
    while [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("script", [HANGING, STUBBORN])
async def test_a_hanging_program_is_killed_with_its_children_at_its_deadline(program, script):
    command = program(script)
    for seconds in (0.5, 4.0, 32.0):  # on a busy machine the program is killed before it has begun
        with pytest.raises(errors.NoCredentials, match=f"/login did not end within {seconds:g} s and was killed"):
            await authentication.run_program(command, longest_seconds=seconds)
        if written_by(command):
            break
    await all_gone(await started_by(command))


async def test_a_cancelled_request_leaves_no_program_behind(server, program):
    command = program(HANGING)
    async with server.session(exec_command=command) as api:
        asked = asyncio.create_task(get_node(api))
        pids = await started_by(command)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await all_gone(pids)


async def test_a_request_that_is_cancelled_while_its_program_starts_leaves_none_behind(program, monkeypatch):
    loop, command = asyncio.get_running_loop(), program(HANGING)
    start = loop.subprocess_exec

    async def slowly(*arguments, **options):
        started = await start(*arguments, **options)
        await asyncio.sleep(0.3)
        return started

    monkeypatch.setattr(loop, "subprocess_exec", slowly)
    asked = asyncio.create_task(authentication.run_program(command))
    pids = await started_by(command)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await all_gone(pids)


async def test_a_watch_behind_a_hanging_program_fails_and_names_it(server, program, monkeypatch):
    monkeypatch.setattr(authentication.run_program, "__defaults__", (0.2,))
    call = objects.call("GET", "watch", resources.NODES, None, None)
    async with server.session(exec_command=program(HANGING)) as api:
        with pytest.raises(errors.NoCredentials, match="/login did not end within"):
            async with api.stream(call, parameters={"watch": "true"}, silence_seconds=5.0):
                pass


async def test_a_program_that_leaves_its_output_to_a_child_is_ended_at_its_deadline(program):
    command = program('sleep 600 & echo $! > "$0.pids"; exit 0')
    for seconds in (0.5, 4.0, 32.0):
        with pytest.raises(errors.NoCredentials, match="did not end within"):
            await authentication.run_program(command, longest_seconds=seconds)
        if written_by(command):
            break
    await all_gone(await started_by(command))


def printed(token, lifetime_seconds):
    return authentication.Printed(connection.Credential(f"Bearer {token}"), lifetime_seconds)


class Program:
    """Stands in for `authentication.run_program`: results in order."""

    def __init__(self, *results):
        self.results = list(results)
        self.runs = 0

    async def __call__(self, _command):
        self.runs += 1
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result


@pytest.fixture
def exec_auth(monkeypatch):
    def make(*results):
        runs, clock = Program(*results), Clock()
        monkeypatch.setattr(authentication, "run_program", runs)
        return authentication.ExecAuth(connection.ExecCommand("v1", ("login",)), clock), clock, runs

    return make


@pytest.mark.parametrize(("lifetime", "still_at", "renewed_at"), [(900, 839, 840), (100, 79, 80), (-5, 9, 10)])
async def test_a_credential_is_renewed_before_it_expires(exec_auth, lifetime, still_at, renewed_at):
    auth, clock, runs = exec_auth(printed("one", lifetime), printed("two", None))
    for clock.now in (0.0, float(still_at)):
        assert (await auth.credential()).header == "Bearer one"
    assert runs.runs == 1
    for clock.now in (float(renewed_at), 1e6):
        assert (await auth.credential()).header == "Bearer two"
    assert runs.runs == 2


async def test_a_program_that_fails_for_a_moment_does_no_harm_while_its_last_credential_is_valid(exec_auth, caplog):
    failed = errors.NoCredentials("login is away")
    auth, clock, runs = exec_auth(printed("one", 900), failed, failed, failed, printed("two", 900))
    await auth.credential()
    for clock.now in (840.0, 845.0, 850.0, 859.0):
        assert (await auth.credential()).header == "Bearer one"
    assert runs.runs == 3, "every 10 s"
    assert "login is away; the last credential is still valid" in caplog.text
    clock.now = 900.0
    with pytest.raises(errors.NoCredentials, match="login is away"):
        await auth.credential()
    assert (await auth.credential()).header == "Bearer two"


async def test_a_request_that_is_cancelled_in_a_renewal_lets_the_next_one_use_the_valid_credential(exec_auth):
    auth, clock, _runs = exec_auth(printed("one", 900), asyncio.CancelledError())
    await auth.credential()
    clock.now = 850.0
    with pytest.raises(asyncio.CancelledError):
        await auth.credential()
    assert (await auth.credential()).header == "Bearer one"


async def test_the_time_of_expiry_is_read_from_what_the_program_prints(program):
    at = times.format_epoch(time.time() + 3600)
    text = json.dumps({"status": {"token": "t", "expirationTimestamp": at}})
    assert 3500 < (await authentication.run_program(program(f"echo '{text}'"))).lifetime_seconds <= 3600
    without = json.dumps({"status": {"token": "t", "expirationTimestamp": None}})
    assert (await authentication.run_program(program(f"echo '{without}'"))).lifetime_seconds is None
