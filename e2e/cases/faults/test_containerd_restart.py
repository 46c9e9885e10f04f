"""containerd ends and starts while a Mid pod runs: reports go on, and the pod keeps its CPU quota and its container."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from e2e.support import agent_restart, cgroup_accounting, slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.installation import Suite
from tools.localcluster import running
from tools.localcluster.errors import ClusterProblem

MID_MILLIS, MEMORY_MIB = 200, 48
POD, WITNESS = "survivor", "witness"
READY_SECONDS = 150
"""Time until the kubelet has reported its runtime again, and the next pod runs."""

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("shell_in_node")]


class Restart(NamedTuple):
    """What was seen before, during and after the absence of containerd."""

    began: dt.datetime
    ended: dt.datetime
    sampled_meanwhile: dt.datetime
    """Time of the sample of a report that came without containerd."""
    sampled_afterwards: dt.datetime
    quotas: tuple[int, int, int]
    """CPU quota of the Mid pod in the kernel, in milli-cores: before, during, after."""
    containers: tuple[dict[str, Any], dict[str, Any]]
    """Status of the Mid pod's container before and after."""
    agents: tuple[dict[str, Any], dict[str, Any]]
    """Status of the agent's container before and after."""


@pytest.fixture(scope="module")
def pod(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Run a Mid pod with a CPU limit, and return it."""
    slo_config.write(cluster_client, slo_config.changed(**slo_config.STATIC))
    waiting.until(
        "Mid on the node", lambda: cluster_client.mid(node), lambda mid: mid and mid[0] >= MID_MILLIS,
        within_seconds=180,
    )  # fmt: skip
    made = workloads.mid_pod(POD, suite.workload, cpu_millis=MID_MILLIS, memory_mib=MEMORY_MIB, nodes=[node])
    resources = made["spec"]["containers"][0]["resources"]
    resources["requests"] |= {"cpu": "0", "memory": "0"}
    resources["limits"] |= {"cpu": f"{MID_MILLIS}m", "memory": f"{MEMORY_MIB}Mi"}
    cluster_client.create("Pod", made, namespace)
    cluster_client.wait_running(namespace, POD)
    waiting.until(
        "its start in its status", lambda: _container(cluster_client, namespace)["state"].get("running")
    )  # fmt: skip
    yield dict(cluster_client.get("Pod", POD, namespace))
    slo_config.write(cluster_client, slo_config.BASE)


def _container(cluster_client: ClusterClient, namespace: str) -> dict[str, Any]:
    (found,) = cluster_client.get("Pod", POD, namespace)["status"]["containerStatuses"]
    return dict(found)


def _sampled(cluster_client: ClusterClient, node: str, after: dt.datetime) -> dt.datetime:
    return moment(cluster_client.wait_report(node, after)["status"]["updateTime"])


@pytest.fixture(scope="module")
def restart(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str, pod: dict[str, Any]) -> Restart:
    """Stop containerd until the agent has reported without it, then start it, and let another pod run."""
    container, agent = _container(cluster_client, namespace), agent_restart.container(suite, cluster_client)
    quota = cgroup_accounting.quota(pod).millis
    try:
        running.provider().stop("containerd")
    except ClusterProblem as impossible:
        pytest.skip(str(impossible))
    try:
        began = dt.datetime.now(dt.UTC)
        meanwhile = _sampled(cluster_client, node, began)
        quota_meanwhile = cgroup_accounting.quota(pod).millis
    finally:
        ended = dt.datetime.now(dt.UTC)
        running.provider().start("containerd")
    # The start of another pod shows that the kubelet is connected again, and has compared its pods with the containers.
    cluster_client.create("Pod", workloads.pod(WITNESS, suite.workload, nodes=[node]), namespace)
    cluster_client.wait_running(namespace, WITNESS, within_seconds=READY_SECONDS)
    return Restart(
        began,
        ended,
        meanwhile,
        _sampled(cluster_client, node, dt.datetime.now(dt.UTC)),
        (quota, quota_meanwhile, cgroup_accounting.quota(pod).millis),
        (container, _container(cluster_client, namespace)),
        (agent, agent_restart.container(suite, cluster_client)),
    )


def test_reports_go_on_without_containerd_and_afterwards(restart: Restart) -> None:
    assert restart.began <= restart.sampled_meanwhile <= restart.ended < restart.sampled_afterwards


def test_the_mid_pod_keeps_its_quota(restart: Restart) -> None:
    assert restart.quotas == (MID_MILLIS, MID_MILLIS, MID_MILLIS)


def test_neither_the_mid_pod_nor_the_agent_is_restarted(
    cluster_client: ClusterClient, namespace: str, restart: Restart
) -> None:
    for before, after in (restart.containers, restart.agents):
        assert (after["containerID"], after["restartCount"]) == (before["containerID"], before["restartCount"])
        assert "running" in after["state"]
    assert cluster_client.pod_phase(POD, namespace) == "Running"


def test_the_report_has_both_pods(cluster_client: ClusterClient, node: str, namespace: str, restart: Restart) -> None:
    """The agent finds the cgroup of a pod that begins afterwards, and has lost none."""

    def reported() -> set[str]:
        status = cluster_client.node_metric(node)["status"]
        return {each["name"] for each in status["podsMetric"] if each["namespace"] == namespace}

    waiting.until("both pods in the report", reported, lambda names: names == {POD, WITNESS}, within_seconds=90)
