"""The console in a network namespace of its own, as in a pod: a neighbour reaches its probes and not its pages."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes import agent_process
from tools.localcluster.content_cache import REPOSITORY
from tools.localcluster.host import debian_packages

POD, NEIGHBOUR = "koord-test-pod", "koord-test-neighbour"
ADDRESS, NEIGHBOURS_ADDRESS = "192.0.2.1", "192.0.2.2"  # of documentation: no cluster has them
PAGE_PORT, PROBE_PORT = 10270, 9319
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5).close()
    print("open")
except OSError as error:
    print(type(error).__name__)
"""
SECONDS = 60
NAMESPACES = Path("/run/netns")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for network namespaces"),
]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def link():
    """Make two network namespaces with a link between them, as two pods have."""
    debian_packages.ensure({"iproute2": ("ip",)})
    made, had_folder = [], NAMESPACES.exists()
    try:
        for name in (POD, NEIGHBOUR):
            ip("netns", "add", name)
            made.append(name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "eth0", "netns", POD, "type", "veth", "peer", "name", "eth0", "netns", NEIGHBOUR)
        for name, address in ((POD, ADDRESS), (NEIGHBOUR, NEIGHBOURS_ADDRESS)):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield
    finally:
        for name in made:
            ip("netns", "delete", name)
        if not had_folder:  # which ip makes with the first namespace, and mounts on itself
            subprocess.run(["umount", str(NAMESPACES)], check=False, capture_output=True)
            NAMESPACES.rmdir()


@pytest.fixture(scope="module")
def console(link, tmp_path_factory):
    """Run the console in the first namespace. Its apiserver is not there, which its pages show."""
    file: Path = agent_process.kubeconfig(tmp_path_factory.mktemp("console") / "kubeconfig", "http://127.0.0.1:1")
    flags = [f"--page-port={PAGE_PORT}", f"--http-port={PROBE_PORT}", f"--kubeconfig={file}"]
    process = subprocess.Popen(
        ["ip", "netns", "exec", POD, sys.executable, "-m", "console", *flags], cwd=REPOSITORY
    )  # ip becomes the console
    try:
        end = time.monotonic() + SECONDS
        while connect(POD, "127.0.0.1", PAGE_PORT) != "open" and time.monotonic() < end:
            time.sleep(0.5)
        yield
    finally:
        process.kill()
        process.wait()


def connect(namespace: str, address: str, port: int) -> str:
    """Connect from a namespace; return "open" or the name of the error."""
    words = ["ip", "netns", "exec", namespace, sys.executable, "-c", CONNECT, address, str(port)]
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True).stdout.strip()
    return "no answer"


@pytest.mark.usefixtures("console")
def test_only_the_namespace_of_the_console_reaches_its_pages():
    assert connect(POD, "127.0.0.1", PAGE_PORT) == "open"
    assert connect(NEIGHBOUR, ADDRESS, PROBE_PORT) == "open"
    assert connect(NEIGHBOUR, ADDRESS, PAGE_PORT) == "ConnectionRefusedError"
    assert connect(POD, ADDRESS, PAGE_PORT) == "ConnectionRefusedError"
