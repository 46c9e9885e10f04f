"""Reach a pod's loopback page through a child kubectl, which is a script here."""

import asyncio
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from fleet import port_forward
from fleet.port_forward import Caller, CannotForward, PodPort

POD = PodPort("koordinator-system", "koord-scheduler-7c9f", 10263)
SERVES = """
import http.server
class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", "/else")
        self.end_headers()
        if self.path == "/large":
            for _ in range(9):
                self.wfile.write(b"x" * 2**20)
        elif self.path == "/slow":
            time.sleep(600)
        else:
            self.wfile.write(self.path.encode())
    def log_message(self, *given):
        print("Handling connection", "x" * 10_000, flush=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
print(f"Forwarding from 127.0.0.1:{server.server_port} -> 10263", flush=True)
print(f"Forwarding from [::1]:{server.server_port} -> 10263", flush=True)
server.serve_forever()
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """Install a kubectl that notes its process and arguments, and then runs the given code."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def install(code):
        file = folder / "kubectl"
        note = f"json.dump([os.getpid(), sys.argv[1:]], open({str(tmp_path / 'ran')!r}, 'w'))"
        head = (
            f"#!{sys.executable}\nimport json, os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        )
        file.write_text(f"{head}{note}\n{code}")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return tmp_path / "ran"

    return install


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
