"""Reach a pod's loopback page through a child kubectl, which is a script here."""

import asyncio
import contextlib
import functools
import json
from pathlib import Path

import pytest

from fleet import port_forward
from fleet.port_forward import Caller, CannotForward, Forward, PodPort
from tests.fakes import connections, fake_kubectl
from tests.fakes.fake_kubectl import SERVES

POD = PodPort("koordinator-system", "koord-scheduler-7c9f", 10263)


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    return functools.partial(fake_kubectl.install, tmp_path, monkeypatch)


def process_of(ran):
    return json.loads(ran.read_text())[0]


def has_ended(process):
    return not Path(f"/proc/{process}").exists()


async def test_a_page_is_read_and_the_child_ends(kubectl):
    ran = kubectl(SERVES)
    caller = Caller("/some/config", "prod", "jane", ("viewers", "auditors"))
    async with port_forward.open_forward(POD, caller) as forward:
        for path in ("/debug/pods/a/b?nodes=0", "/other", "/moved"):
            page = await forward.get(path)
            assert page.body.decode() == path
        assert page.status == 302
        process, words = json.loads(ran.read_text())
        assert not has_ended(process)
    assert has_ended(process)
    flags = ["--kubeconfig=/some/config", "--context=prod", "--as=jane", "--as-group=viewers", "--as-group=auditors"]
    where = ["--namespace=koordinator-system", "--address=127.0.0.1", "pod/koord-scheduler-7c9f", ":10263"]
    assert words == ["port-forward", *flags, *where]


async def test_a_proxy_of_the_environment_is_not_used(kubectl, monkeypatch, closed_port):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    kubectl(SERVES)
    async with port_forward.open_forward(POD, Caller()) as forward:
        assert (await forward.get("/other")).body == b"/other"


async def test_a_page_is_bounded_in_size_and_time(kubectl, monkeypatch):
    monkeypatch.setattr(port_forward, "_LARGEST_PAGE_BYTES", 2**21)
    kubectl(SERVES)
    async with port_forward.open_forward(POD, Caller()) as forward:
        with pytest.raises(CannotForward, match="/large has more than 2097152 bytes"):
            await forward.get("/large")
        with pytest.raises(CannotForward, match=r"/slow did not answer within 0\.2 s"):
            await forward.get("/slow", timeout_seconds=0.2)


async def test_the_child_ends_with_an_error_of_the_caller(kubectl):
    ran = kubectl(SERVES)
    with pytest.raises(ZeroDivisionError):
        async with port_forward.open_forward(POD, Caller()):
            raise ZeroDivisionError
    assert has_ended(process_of(ran))


async def test_a_child_that_does_not_begin_is_ended(kubectl):
    ran = kubectl("")
    ran.with_name("bin").joinpath("kubectl").write_text(
        f"#!/bin/sh\necho waiting for a login >&2\necho [$$] > {ran}\nexec sleep 600\n"
    )
    with pytest.raises(CannotForward, match=r"did not begin within 0\.5 s: waiting for a login"):
        async with port_forward.open_forward(POD, Caller(), timeout_seconds=0.5):
            pass
    assert has_ended(process_of(ran))


async def test_the_child_ends_with_a_cancelled_caller(kubectl):
    ran = kubectl(SERVES)
    is_open = asyncio.Event()

    async def forwarding():
        async with port_forward.open_forward(POD, Caller()):
            is_open.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(forwarding())
    await is_open.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert has_ended(process_of(ran))


async def test_a_child_that_ends_in_between_is_an_error(kubectl):
    kubectl(
        "import socket\nlistening = socket.create_server(('127.0.0.1', 0))\n"
        "print('Forwarding from 127.0.0.1:%d -> 1' % listening.getsockname()[1], flush=True)\n"
        "taken = listening.accept()[0]\n"
        "print('error: lost connection to pod', file=sys.stderr, flush=True)"
    )
    async with port_forward.open_forward(POD, Caller()) as forward:
        with pytest.raises(CannotForward, match="koord-scheduler-7c9f, port 10263: no answer: "):
            await forward.get("/x")


async def test_a_missing_right_is_named(kubectl):
    refused = 'pods "x" is forbidden: User "v" cannot create resource "pods/portforward" in API group ""'
    kubectl(f"print('E1124 noise', file=sys.stderr)\nsys.exit('error: error upgrading connection: ' + {refused!r})")
    with pytest.raises(
        CannotForward, match=r"is forbidden: User .* grant it by RBAC in the namespace koordinator-system"
    ):
        async with port_forward.open_forward(POD, Caller()):
            pass


async def test_without_kubectl_the_error_names_the_fix(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotForward, match=r"cannot run kubectl .*; install kubectl in a folder of PATH"):
        async with port_forward.open_forward(POD, Caller()):
            pass


@contextlib.asynccontextmanager
async def forwarded(answer, written=b""):
    async def serve(reader, writer):
        with contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()

    async with connections.served(serve) as port:
        yield Forward(POD, port, bytearray(written))


async def test_without_an_answer_the_last_line_of_kubectl_is_the_cause():
    async with forwarded(b"", b"Forwarding\nlost connection to pod\n\n") as forward:
        with pytest.raises(CannotForward, match=r"no answer: lost connection to pod$"):
            await forward.get("/")
