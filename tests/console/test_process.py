"""`python -m console` as the chart runs it: pages on 127.0.0.1 and nowhere else, probes and metrics for the kubelet."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx2
import psutil
import pytest

from console.web import server
from tests.koordctl import serving
from tools.localcluster.host import ports

pytestmark = pytest.mark.slow

SECONDS = 30
REFUSED = 5


class Started:
    def __init__(self, kubeconfig):
        self.page_port, self.http_port = ports.free_ports(2)
        flags = [f"--page-port={self.page_port}", f"--http-port={self.http_port}", f"--kubeconfig={kubeconfig}"]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen([sys.executable, "-m", "console", *flags], env=environment)

    def get(self, path, port=None, method="GET", **more):
        with httpx2.Client(trust_env=False, timeout=SECONDS) as client:
            return client.request(method, f"http://127.0.0.1:{port or self.page_port}{path}", **more)

    def until_ready(self):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(httpx2.TransportError):
                if self.get("/readyz", self.http_port).status_code == 200:
                    return
            time.sleep(0.1)
        raise AssertionError(self.get("/readyz", self.http_port).text)


@pytest.fixture(scope="module")
def console(tmp_path_factory):
    with serving.kubeconfig_of(tmp_path_factory.mktemp("console"), **serving.healthy()) as kubeconfig:
        started = Started(kubeconfig)
        try:
            started.until_ready()
            yield started
        finally:
            started.process.kill()
            started.process.wait()


def listening(pid):
    found = psutil.Process(pid).net_connections("inet")
    return {tuple(each.laddr) for each in found if each.status == psutil.CONN_LISTEN}


def own_addresses():
    """Return the addresses of this machine other than the one of the pages."""
    found = [each for of_link in psutil.net_if_addrs().values() for each in of_link]
    outside = [each.address for each in found if each.family == socket.AF_INET and each.address != "127.0.0.1"]
    return [*outside, "127.0.0.2", "::1"]


def is_open(address, port):
    try:
        socket.create_connection((address, port), timeout=REFUSED).close()
    except OSError:
        return False
    return True


def test_no_other_address_of_the_machine_leads_to_the_pages(console):
    reached = {
        address: (is_open(address, console.page_port), is_open(address, console.http_port))
        for address in own_addresses()
    }
    assert set(reached.values()) == {(False, True)}, reached


def test_whoever_forwards_the_port_sees_the_pages_under_a_strict_policy(console):
    answer = console.get("/")
    assert answer.status_code == 200
    assert "worker-1" in answer.text
    assert answer.headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'"
    )
    assert "server" not in answer.headers
    assert "does not reach" in console.get("/decisions").text.replace("\n", " ")


def test_the_other_port_has_probes_and_metrics_and_no_page(console):
    assert "koord_console_snapshot_nodes 1.0" in console.get("/metrics", console.http_port).text
    assert console.get("/healthz", console.http_port).status_code == 200
    for path in ("/", "/mid", "/static/koord.css"):
        answer = console.get(path, console.http_port)
        assert (answer.status_code, "worker" in answer.text) == (404, False)


def test_it_ends_by_sigterm_also_with_a_connection_that_stays(tmp_path):
    with serving.kubeconfig_of(tmp_path, **serving.healthy()) as kubeconfig:
        started = Started(kubeconfig)
        started.until_ready()
        with socket.create_connection(("127.0.0.1", started.page_port)):
            started.process.send_signal(signal.SIGTERM)
            assert started.process.wait(SECONDS) in (0, -signal.SIGTERM)


def test_koordctl_console_listens_on_loopback_only(tmp_path):
    with serving.kubeconfig_of(tmp_path, **serving.healthy()) as kubeconfig:
        words = [sys.executable, "-m", "koordctl", "console", "--no-browser", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            try:
                port = int(re.search(r"127\.0\.0\.1:(\d+)/", process.stdout.readline())[1])
                assert listening(process.pid) == {("127.0.0.1", port)}
            finally:
                process.kill()


def test_a_connection_sends_at_once():
    with contextlib.closing(server.listen(0)) as opened, socket.create_connection(opened.getsockname()):
        opened.setblocking(True)
        with contextlib.closing(opened.accept()[0]) as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
