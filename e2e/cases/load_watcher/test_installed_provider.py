"""TargetLoadPacking reads a Prometheus behind a Service, with a token that rotates; installed by helm alone.

A real Prometheus has the samples of three fake nodes. A proxy before it accepts one token, as an authenticating proxy
of a monitoring stack does. The extender finds the Service by the cluster's DNS and the token in a mounted Secret.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.support import command_lines, fake_fleet, service_names, token_proxy, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.fallback_levels import METRIC
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from e2e.support.scheduling import SchedulingHelper
from e2e.support.token_proxy import TokenProxy
from e2e.thirdparty.prometheus import backfill, server
from e2e.thirdparty.prometheus.backfill import Sample
from tools.localcluster import running
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

pytestmark = [pytest.mark.long, pytest.mark.timeout(900, func_only=True)]  # the kubelet renews Secrets in a minute

POLICY = "TargetLoadPacking"
CPU_PERCENT = {"packed": 35, "calm": 5, "hot": 60}
"""The pods go to the node nearest below the target of 40 %."""
MINUTES, STEP_SECONDS = 20, 15
SECRET, KEY = "prometheus-token", "token"
FIRST, SECOND = "first-secret-token", "second-secret-token"
READ_PAGE = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:10263/debug/config').read().decode())"
ROTATION_SECONDS = 240.0
"""Time until the kubelet has renewed a mounted Secret, which it checks about once a minute, and the next refresh."""


class Stage(NamedTuple):
    """The suite with the provider, the proxy before it, and the fake nodes by key."""

    suite: Suite
    proxy: TokenProxy
    nodes: dict[str, str]


def _samples(nodes: dict[str, str]) -> Iterator[Sample]:
    """Yield what koordlets of these nodes would have exported."""
    end = time.time()
    times = [end - MINUTES * 60 + at for at in range(0, MINUTES * 60 + 1, STEP_SECONDS)]
    for key, name in nodes.items():
        cores = CPU_PERCENT[key] / 100 * fake_fleet.CPU_MILLIS / 1000
        for at in times:
            yield Sample("koordlet_usage_cpu_cores", {"kind": "node", "node": name}, at, cores)
    for name in nodes.values():
        for at in times:
            yield Sample("koordlet_usage_memory_bytes", {"kind": "node", "node": name}, at, 2.0**30)


def _write_token(cluster_client: ClusterClient, **tokens: str) -> None:
    data = {key: base64.b64encode(token.encode()).decode() for key, token in tokens.items()}
    cluster_client.patch("Secret", SECRET, {"data": data}, SUITE_NAMESPACE)


@pytest.fixture(scope="module")
def stage(
    cluster: Cluster,
    cluster_client: ClusterClient,
    suite: Suite,
    namespace: str,
    fake_nodes: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    """Install the suite with the provider; the Secret exists and lacks the token at first."""
    try:
        address = running.provider().host_address()
    except ClusterProblem as unknown:
        pytest.skip(str(unknown))
    folder = tmp_path_factory.mktemp("prometheus")
    with fake_fleet.registered(cluster_client, [f"provider-{key}" for key in CPU_PERCENT]) as names:
        nodes = dict(zip(CPU_PERCENT, names, strict=True))
        backfill.write(folder, _samples(nodes))
        prometheus = server.Prometheus(folder)
        prometheus.start({}, "")
        try:
            with (
                token_proxy.running(address, prometheus.url, FIRST) as proxy,
                service_names.registered(
                    cluster, cluster_client, namespace, "prometheus", port=9090, target_port=proxy.port
                ) as service,
            ):
                secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "type": "Opaque"}
                cluster_client.create("Secret", secret, SUITE_NAMESPACE)
                try:
                    suite.install(*_flags(f"http://{service}:9090"))
                    yield Stage(suite, proxy, nodes)
                finally:
                    suite.install()
                    cluster_client.delete("Secret", SECRET, SUITE_NAMESPACE)
        finally:
            prometheus.stop()


def _flags(address: str) -> list[str]:
    """Return the chart values of the set-up; no agent reports the fake nodes, so nothing filters by reports."""
    provider = {
        "type": "Prometheus",
        "address": address,
        "tokenFile": f"/etc/scheduler-plugin-secrets/{KEY}",
        "queries": "koordlet",
    }
    without = {"disabled": [{"name": "LoadAwareScheduling"}]}
    plugins = {"filter": without, "score": {"enabled": [{"name": POLICY}], **without}}
    return [
        f"--set=scheduler.plugin.tokenSecret.name={SECRET}",
        f"--set-json=scheduler.plugin.plugins={json.dumps(plugins)}",
        f"--set-json=scheduler.plugin.pluginArgs.{POLICY}={json.dumps({'metricProvider': provider})}",
        '--set-json=scheduler.plugin.extraArgs=["--measurement-interval-seconds=5"]',
    ]


def _measured_nodes(cluster: Cluster, suite: Suite) -> int:
    """Return the number of nodes whose CPU the extender knows from the provider."""
    (pod,) = suite.pods("koord-scheduler")
    page = cluster.run("get", "--raw", f"/api/v1/namespaces/{SUITE_NAMESPACE}/pods/{pod}:10262/proxy/metrics")
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    wanted = {"resource": "cpu", "level": "measured"}
    return sum(int(one.value) for one in samples if one.name == METRIC and wanted.items() <= one.labels.items())


def _restarts(cluster_client: ClusterClient, suite: Suite) -> int:
    (pod,) = suite.pods("koord-scheduler")
    status = cluster_client.get("Pod", pod, SUITE_NAMESPACE)["status"]
    containers = [*status.get("initContainerStatuses", []), *status["containerStatuses"]]
    return sum(container["restartCount"] for container in containers)


def _log(cluster: Cluster, suite: Suite) -> str:
    (pod,) = suite.pods("koord-scheduler")
    return cluster.run("logs", pod, "--namespace", SUITE_NAMESPACE, "--all-containers")


def _shown(cluster: Cluster, suite: Suite, folder: Path) -> str:
    """Return everything that the running extender shows: its log, its configuration page and file, checked."""
    (pod,) = suite.pods("koord-scheduler")
    where = ("exec", pod, "--namespace", SUITE_NAMESPACE, "--container=scheduler-plugin", "--", "python")
    page = cluster.run(*where, "-c", READ_PAGE)
    file = folder / "scheduler-plugin.yaml"
    file.write_text(cluster.run(*where, "-c", "print(open('/etc/koord-scheduler/scheduler-plugin.yaml').read())"))
    checked = command_lines.run("koordctl", "scheduler", "check", str(file), "-o", "yaml").text
    for text in (page, checked):
        assert "tokenFile" in text
    return page + checked + _log(cluster, suite)


def test_a_prometheus_behind_a_service_is_read_with_a_token_that_rotates(
    cluster: Cluster, cluster_client: ClusterClient, scheduling: SchedulingHelper, stage: Stage, tmp_path: Path
) -> None:
    suite, proxy, nodes = stage

    def pack(name: str) -> list[str]:
        pods = [scheduling.submit(f"{name}-{number}", workloads.SCHEDULER, [*nodes.values()]) for number in range(2)]
        bound = scheduling.bound(pods)
        scheduling.dismiss(*pods)
        return bound

    # Without the file of the token the provider fails, and the process goes on.
    waiting.until("a fetch has failed", lambda: "cannot read the token" in _log(cluster, suite))
    assert set(pack("without-token")) <= {*nodes.values()}
    assert _measured_nodes(cluster, suite) == 0
    assert _restarts(cluster_client, suite) == 0

    _write_token(cluster_client, **{KEY: FIRST})
    waiting.until(
        "the nodes are measured",
        lambda: _measured_nodes(cluster, suite),
        lambda count: count == len(nodes),
        within_seconds=ROTATION_SECONDS,
    )
    assert pack("packed") == [nodes["packed"]] * 2

    # The old token is refused from now on.
    proxy.token = SECOND
    waiting.until("the old token is refused", lambda: proxy.answers[FIRST, 401])
    _write_token(cluster_client, **{KEY: SECOND})
    waiting.until("the new token is used", lambda: proxy.answers[SECOND, 200], within_seconds=ROTATION_SECONDS)
    refused = proxy.answers[FIRST, 401]
    waiting.until("every node is fetched again", lambda: proxy.answers[SECOND, 200] > 20)
    assert proxy.answers[FIRST, 401] == refused
    assert _measured_nodes(cluster, suite) == len(nodes)
    assert pack("packed-again") == [nodes["packed"]] * 2
    assert _restarts(cluster_client, suite) == 0

    shown = _shown(cluster, suite, tmp_path)
    assert FIRST not in shown
    assert SECOND not in shown
