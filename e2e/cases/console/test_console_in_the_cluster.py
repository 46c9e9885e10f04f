"""The console of the chart in a real pod: no other pod and no proxy reaches its pages, `kubectl port-forward` does."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from e2e.support import waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

PAGE_PORT, PROBE_PORT = 10270, 9319
NEIGHBOUR, VISITOR = "neighbour", "visitor"
CONNECT = """
import socket, sys
for port in sys.argv[2:]:
    try:
        socket.create_connection((sys.argv[1], int(port)), timeout=10).close()
        print(port, "open")
    except OSError as error:
        print(port, type(error).__name__)
"""
LISTENING = """
import ipaddress, pathlib
for name, size in (("tcp", 4), ("tcp6", 16)):
    for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]:
        _, local, _, state = line.split()[:4]
        address, port = local.split(":")
        if state == "0A":
            words = bytes.fromhex(address)
            print(ipaddress.ip_address(b"".join(words[at:at + 4][::-1] for at in range(0, size, 4))), int(port, 16))
"""
pytestmark = pytest.mark.long  # it installs one more part, and builds its image the first time


@pytest.fixture(scope="module")
def console(suite: Suite) -> Iterator[str]:
    """Install the console and yield the name of its pod."""
    repository, _, tag = suite.images["console"].rpartition(":")
    suite.install("--set=console.enabled=true", f"--set=console.image.repository={repository},console.image.tag={tag}")
    (pod,) = suite.pods("koord-console")
    yield pod
    suite.install()


@contextlib.contextmanager
def forwarded(cluster: Cluster, pod: str, *flags: str) -> Iterator[str]:
    """Forward a port of this machine to the pages; yield the first line that kubectl prints."""
    words = [cluster.kubectl, "port-forward", pod, f":{PAGE_PORT}", "--namespace", SUITE_NAMESPACE, *flags]
    environment = {**os.environ, **cluster.environment}
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()


def request(line: str, path: str = "/", method: str = "GET", host: str = "") -> tuple[int, str]:
    """Send a request to the port that kubectl named; return status and body."""
    found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
    assert found is not None, line
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_another_pod_reaches_the_probes_and_not_the_pages(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, console: str, namespace: str
) -> None:
    address = cluster_client.get("Pod", console, SUITE_NAMESPACE)["status"]["podIP"]
    cluster_client.create("Pod", workloads.pod(NEIGHBOUR, suite.workload, *workloads.load()), namespace)
    cluster_client.wait_running(namespace, NEIGHBOUR)
    tried = ("exec", NEIGHBOUR, "--namespace", namespace, "--", "python3", "-c", CONNECT)
    ports = (str(PAGE_PORT), str(PROBE_PORT))
    assert cluster.run(*tried, address, *ports).split() == [ports[0], "ConnectionRefusedError", ports[1], "open"]


def test_the_pages_listen_on_the_loopback_of_the_pod_only(cluster: Cluster, console: str) -> None:
    where = ("exec", console, "--namespace", SUITE_NAMESPACE, "--", "python3", "-c", LISTENING)
    found = {tuple(line.split()) for line in cluster.run(*where).splitlines()}
    assert found in (
        {("127.0.0.1", str(PAGE_PORT)), (any_address, str(PROBE_PORT))} for any_address in ("::", "0.0.0.0")
    )


def test_the_proxy_of_the_apiserver_does_not_reach_the_pages(cluster: Cluster, console: str) -> None:
    path = f"/api/v1/namespaces/{SUITE_NAMESPACE}/pods/{console}"
    assert "koord_console_snapshot_nodes" in cluster.run("get", "--raw", f"{path}:{PROBE_PORT}/proxy/metrics")
    with pytest.raises(ClusterProblem, match=r"refused|error trying to reach service"):
        cluster.run("get", "--raw", f"{path}:{PAGE_PORT}/proxy/")


def test_no_service_selects_the_pod(cluster: Cluster, console: str) -> None:
    labels = cluster.get("pod", console, "--namespace", SUITE_NAMESPACE)["metadata"]["labels"].items()
    services = cluster.get("services", "--namespace", SUITE_NAMESPACE)["items"]
    assert [
        each["metadata"]["name"] for each in services if (each["spec"].get("selector") or {"": ""}).items() <= labels
    ] == []


def test_the_right_to_forward_a_port_is_the_login(cluster: Cluster, console: str, node: str) -> None:
    with forwarded(cluster, console, "--as", VISITOR) as line:
        assert "forbidden" in line.lower()
    with forwarded(cluster, console) as line:
        status, page = waiting.until("the node is shown", lambda: request(line), lambda seen: node in seen[1])
        assert status == http.client.OK
        assert request(line, method="POST")[0] == http.client.METHOD_NOT_ALLOWED
        assert request(line, host=f"koord-console.{SUITE_NAMESPACE}.svc")[0] == http.client.BAD_REQUEST
        assert request(line, f"/nodes/{node}")[0] == http.client.OK
        assert '<script src="/static/htmx.min.js"' in page, "the image has no front-end files"
        assert request(line, "/static/uplot.min.js")[0] == http.client.OK
