"""Optional parts of the chart: the load watcher, and the extender as a Service for other kube-schedulers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support import extender_certificates, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster

SERVICE, PORT = "koord-extender", 10261
SERVED_NAME = f"{SERVICE}.{SUITE_NAMESPACE}.svc"
ROOM_PERCENT = 20.0
"""Allowed difference between two values of a node on which cases run: reports are a minute old, means over 15."""


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return extender_certificates.made(tmp_path_factory, SERVED_NAME)


@pytest.fixture(scope="module")
def installed(cluster: Cluster, suite: Suite, identities: dict[str, Path]) -> Iterator[Suite]:
    here = ("--namespace", SUITE_NAMESPACE)
    own, callers = identities["extender"], identities["callers"]
    files = (f"--cert={own / 'one.crt'}", f"--key={own / 'one.key'}")
    cluster.run("create", "secret", "tls", "extender-tls", *files, *here)
    cluster.run("create", "secret", "generic", "callers", f"--from-file={callers / 'ca.crt'}", *here)
    image = suite.values()["scheduler"]["plugin"]["image"]
    suite.install(
        "--set=loadWatcher.enabled=true",
        *(f"--set=loadWatcher.image.{key}={value}" for key, value in image.items()),
        "--set=loadWatcher.intervalSeconds=5",
        "--set=extenderService.enabled=true,extenderService.replicas=1",
        "--set=extenderService.serverCertificateSecret=extender-tls,extenderService.callersAuthoritySecret=callers",
    )
    yield suite
    suite.install()
    cluster.run("delete", "secret", "extender-tls", "callers", *here)


def _watched(cluster: Cluster, node: str) -> dict[str, float]:
    """Return the utilization of a node in percent from the Service: a mean, or the newest sample of a new agent."""
    path = f"/api/v1/namespaces/{SUITE_NAMESPACE}/services/koord-load-watcher:2020/proxy/watcher"
    metrics = json.loads(cluster.run("get", "--raw", path))["data"]["NodeMetricsMap"][node]["metrics"]
    return {each["type"]: each["value"] for each in metrics if each["operator"] != "STD"}


def test_the_load_watcher_serves_the_utilization_of_the_node(
    cluster: Cluster, cluster_client: ClusterClient, installed: Suite, node: str
) -> None:
    assert installed.pods("koord-load-watcher")
    seen = waiting.until("the node is watched", lambda: _watched(cluster, node))
    reported = cluster_client.node_metric(node)["status"]["nodeMetric"]["nodeUsage"]["resources"]["memory"]
    capacity = cluster_client.get("Node", node)["status"]["capacity"]["memory"]
    used = 100.0 * int(reported) / (int(capacity.removesuffix("Ki")) * 1024)
    assert seen["Memory"] == pytest.approx(used, abs=ROOM_PERCENT)
    assert 0.0 < seen["CPU"] <= 100.0


@contextlib.contextmanager
def _forwarded(cluster: Cluster) -> Iterator[int]:
    """Forward a port of this machine to the Service, and yield it."""
    words = ["port-forward", f"service/{SERVICE}", f":{PORT}", "--namespace", SUITE_NAMESPACE]
    environment = {**os.environ, **cluster.environment}
    with subprocess.Popen([cluster.kubectl, *words], env=environment, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            found = re.search(r":(\d+) ->", forwarding.stdout.readline())
            assert found is not None
            yield int(found[1])
        finally:
            forwarding.terminate()


def _filter(port: int, trusted: Path, caller: Path | None, node: str) -> Any:
    """Return the extender's filter response for a small pod and a node. Raises OSError."""
    context = ssl.create_default_context(cafile=trusted / "ca.crt")
    if caller is not None:
        context.load_cert_chain(caller / "one.crt", caller / "one.key")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.connect()
    connection.sock = context.wrap_socket(connection.sock, server_hostname=SERVED_NAME)
    with contextlib.closing(connection):
        pod = {"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "spec": {"containers": [{"name": "d"}]}}
        connection.request("POST", "/filter", json.dumps({"Pod": pod, "NodeNames": [node]}))
        return json.loads(connection.getresponse().read())


@pytest.mark.usefixtures("installed")
def test_the_extender_serves_only_callers_with_a_certificate_of_the_authority(
    cluster: Cluster, identities: dict[str, Path], node: str
) -> None:
    own, served, refused = identities["extender"], identities["callers"], (identities["strangers"], None)
    with _forwarded(cluster) as port:
        assert _filter(port, own, served, node)["NodeNames"] == [node]
    for caller in refused:
        # A refused connection ends what forwards it.
        with _forwarded(cluster) as port, pytest.raises((OSError, http.client.HTTPException)):
            _filter(port, own, caller, node)
