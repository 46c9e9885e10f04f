"""cAdvisor's series of a real kubelet, scraped by a real Prometheus, are the usage of the pods that ran.

kube-state-metrics is not in the registries of the tests: its series come from an exporter of the suite.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from e2e.support import kube_state_exporter, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cores_or_bytes
from e2e.support.installation import Suite
from e2e.thirdparty.prometheus.server import DATA, Prometheus
from koordctl import __main__ as koordctl
from koordctl.backtest.cluster_history import Names
from koordctl.backtest.node_history import NodeHistory
from koordctl.backtest.prometheus import Server, steps_between
from koordctl.backtest.sources import PrometheusSource
from koordlet.samples import Resource
from tools.localcluster.access import Cluster

pytestmark = pytest.mark.timeout(600, func_only=True)

STEP_SECONDS, SCRAPE_SECONDS, STEPS = 60, 5, 6  # cAdvisor measures every 10 to 15 s
MEBIBYTE, CORES, MEMORY_MIB = 2**20, 0.2, 96
READER = "koordctl-case-reader"


@dataclass(frozen=True)
class Recorded:
    """A Prometheus that has scraped the kubelet, and the UIDs of the pods that ran."""

    url: str
    begin: float
    end: float
    steady: str
    mid: str
    first: str
    second: str


@pytest.fixture(scope="module")
def reader_token(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Yield a token that may read the metrics of kubelets."""
    cluster.run("create", "clusterrole", READER, "--verb=get", "--resource=nodes/metrics")
    cluster.run("--namespace", namespace, "create", "serviceaccount", READER)
    account = f"--serviceaccount={namespace}:{READER}"
    cluster.run("create", "clusterrolebinding", READER, f"--clusterrole={READER}", account)
    yield cluster.run("--namespace", namespace, "create", "token", READER).strip()
    cluster.run("delete", "clusterrolebinding,clusterrole", READER)


def _address(cluster: Cluster, node: str) -> str:
    status = cluster.get("node", node)["status"]
    (address,) = [each["address"] for each in status["addresses"] if each["type"] == "InternalIP"]
    return f"{address}:{status['daemonEndpoints']['kubeletEndpoint']['Port']}"


@pytest.fixture(scope="module")
def prometheus(
    cluster: Cluster,
    cluster_client: ClusterClient,
    node: str,
    reader_token: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Yield the address of a Prometheus that scrapes the kubelet and the exporter."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "token").write_text(reader_token)
    with kube_state_exporter.serving(cluster_client) as port:
        jobs = [
            {
                "job_name": "kubelet",
                "scheme": "https",
                "metrics_path": "/metrics/cadvisor",
                "authorization": {"credentials_file": str(folder / "token")},
                "tls_config": {"insecure_skip_verify": True},
                "static_configs": [{"targets": [_address(cluster, node)], "labels": {"node": node}}],
            },
            {
                "job_name": "kube-state-metrics",
                "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
            },
        ]
        interval = {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"}
        config = folder / "prometheus.json"  # which is YAML
        config.write_text(json.dumps({"global": interval, "scrape_configs": jobs}))
        server = Prometheus(folder)
        server._start(
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / DATA}",
            f"--web.listen-address=127.0.0.1:{server.port}",
        )
        yield server.url
        server.stop()


@pytest.fixture(scope="module")
def recorded(cluster_client: ClusterClient, suite: Suite, namespace: str, node: str, prometheus: str) -> Recorded:
    """Run a steady pod and a Mid pod, and a pod that is created again under its name meanwhile."""

    def run(name: str, priority_class: str, cores: str) -> str:
        load = workloads.load(cores=cores, memory_mib=MEMORY_MIB)
        requests = {"cpu": "300m", "memory": "128Mi"} if priority_class == "koord-prod" else {}
        pod = workloads.pod(name, suite.workload, *load, requests=requests, priority_class=priority_class, nodes=[node])
        uid: str = cluster_client.create("Pod", pod, namespace)["metadata"]["uid"]
        waiting.until(f"{name} runs", lambda: cluster_client.pod_phase(name, namespace), lambda seen: seen == "Running")
        return uid

    steady, mid, first = (
        run("steady", "koord-prod", str(CORES)),
        run("mid", "koord-mid", "0"),
        run("again", "koord-prod", "0.1"),
    )
    begin = time.time()
    time.sleep(STEP_SECONDS * 3)
    cluster_client.delete("Pod", "again", namespace, grace_seconds=1)
    waiting.until("it is gone", lambda: cluster_client.find("Pod", "again", namespace), lambda seen: seen is None)
    second = run("again", "koord-prod", "0.1")
    time.sleep(STEP_SECONDS * (STEPS - 3))
    return Recorded(prometheus, begin, time.time(), steady, mid, first, second)


@pytest.fixture(scope="module")
def history(recorded: Recorded, node: str) -> NodeHistory:
    """Return the history of the node since all pods ran, without the first step: its rate begins before."""
    steps = steps_between(round(recorded.begin) + STEP_SECONDS, round(recorded.end), STEP_SECONDS)
    names = Names(rate_seconds=STEP_SECONDS)
    return PrometheusSource(Server(recorded.url), names, steps, time.time(), (node,)).load(node)


def _usage(history: NodeHistory, uid: str, resource: Resource) -> np.ndarray:
    number = [pod.uid for pod in history.bound].index(uid)
    stay = history.stays[number]
    return history.usage[resource][stay.series, stay.start : stay.end]


def test_usage_is_that_of_the_load(history: NodeHistory, recorded: Recorded) -> None:
    cores, held = (_usage(history, recorded.steady, resource) for resource in (Resource.CPU, Resource.MEMORY))
    print(f"steady: {cores.round(3)} cores, {(held / MEBIBYTE).round(1)} MiB")
    assert len(cores) == history.steps
    assert np.nanmedian(cores) == pytest.approx(CORES, rel=0.35)  # the machine has other work too
    assert MEMORY_MIB <= np.nanmedian(held) / MEBIBYTE < MEMORY_MIB + 64


def test_classes_and_requests_are_those_of_the_objects(history: NodeHistory, recorded: Recorded) -> None:
    by_uid = {pod.uid: pod for pod in history.bound}
    assert by_uid[recorded.mid].priority_class is PriorityClass.MID
    assert (by_uid[recorded.steady].cpu_request_millis, by_uid[recorded.steady].memory_request_bytes) == (
        300,
        128 * MEBIBYTE,
    )
    assert by_uid[recorded.steady].priority_class is PriorityClass.PROD
    assert history.capacity is not None
    assert history.allocatable is not None


def test_a_pod_created_again_is_another_pod_and_both_follow_one_another(
    history: NodeHistory, recorded: Recorded
) -> None:
    stays = {pod.uid: stay for pod, stay in zip(history.bound, history.stays, strict=True)}
    first, second = stays[recorded.first], stays[recorded.second]
    assert first.end <= second.start
    assert second.end == history.steps


def test_the_root_cgroup_uses_at_least_what_the_pods_use(history: NodeHistory) -> None:
    assert history.node_usage is not None
    for resource in (Resource.CPU, Resource.MEMORY):
        of_pods = np.nansum(history.usage[resource], axis=0)
        whole = history.node_usage[resource]
        assert np.isfinite(whole).all()
        # Kernel and scrapes of both are of slightly different moments.
        assert np.median(whole - of_pods) > 0, f"{resource}: node {whole}, pods {of_pods}"


def test_the_command_has_rows_for_the_node(recorded: Recorded, node: str, tmp_path: Path) -> None:
    out, errors = io.StringIO(), io.StringIO()
    times = [f"--from={round(recorded.begin) + STEP_SECONDS}", f"--to={round(recorded.end)}", f"--step={STEP_SECONDS}s"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = koordctl.main(
            [
                "backtest", "--prometheus", recorded.url, *times, "--horizon=1m", "--interval=1m", f"--nodes={node}",
                "--workers=1", "--output=json", f"--cache={tmp_path}",
            ]
        )  # fmt: skip
    document = json.loads(out.getvalue())
    assert {row["node"] for row in document["nodes"]} == {node}
    assert code == 1
    assert document["recommended"] is None
    assert "want at least 7" in document["reason"]
    assert not list(tmp_path.iterdir()), "today is not over, so it is not kept"


def test_an_estimate_of_minutes_has_the_totals_of_a_calculation_by_hand(
    recorded: Recorded, cluster: Cluster, cluster_client: ClusterClient, node: str
) -> None:
    out, errors = io.StringIO(), io.StringIO()
    times = [f"--from={round(recorded.begin) + STEP_SECONDS}", f"--to={round(recorded.end)}"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        words = ["estimate", f"--kubeconfig={cluster.kubeconfig}", "--prometheus", recorded.url, *times]
        code = koordctl.main([*words, f"--nodes={node}", "--workers=1", "--output=json"])
    document = json.loads(out.getvalue())
    print(json.dumps(document, indent=1))
    prod = [
        {"cpu": "0", "memory": "0", **(container["resources"].get("requests") or {})}
        for pod in cluster_client.list("Pod")
        if pod["spec"].get("nodeName") == node and pod["status"]["phase"] == "Running"
        if pod["spec"].get("priorityClassName") not in ("koord-mid", "koord-batch", "koord-free")
        for container in pod["spec"]["containers"]
    ]
    by_hand = [float(sum(amounts)) for amounts in zip(*map(cores_or_bytes, prod), strict=True)]
    (pool,) = document["pools"]
    assert pool["requested"]["cpu"] == pytest.approx(by_hand[0], abs=0.01)
    assert pool["requested"]["memoryGiB"] * 2**30 == pytest.approx(by_hand[1], abs=MEBIBYTE)
    for resource in ("cpu", "memoryGiB"):
        assert pool["used"][resource] > 0
        assert 0 <= pool["offered"][resource] <= pool["requested"][resource]
    assert (code, pool["nodes"], pool["nodesRead"]) == (0 if any(pool["offered"].values()) else 1, 1, 1)
    assert 0 < document["historySeconds"] < STEP_SECONDS * STEPS * 2
