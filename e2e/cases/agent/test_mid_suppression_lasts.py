"""A lowered limit outlives agent, container and kubelet; it returns step by step, or at once by an uninstallation."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e.support import agent_restart, mid_suppression, pod_processes, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import RELEASE, Suite
from e2e.support.mid_suppression import MID_MILLIS, PERMITTED, Stage
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import running

RESTORED_SECONDS = 330
"""Ten steps of 30 s, and half a minute of calm before the first."""

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("shell_in_node")]


@pytest.fixture(scope="module")
def stage(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> Iterator[Stage]:
    with mid_suppression.staged(cluster_client, suite, node, namespace) as made:
        yield made


def test_a_lowered_limit_outlives_agent_container_and_kubelet(stage: Stage) -> None:
    with stage.step_of_prod():
        stage.until_quota("the quota is lower", lambda seen: seen < MID_MILLIS, within_seconds=60)
        time.sleep(10)
        lowered = stage.limit_millis()
        assert stage.quota_millis() == lowered

        before = agent_restart.container(stage.suite, stage.cluster_client)["restartCount"]
        agent = stage.cluster_client.get("Pod", stage.suite.agent_pod(), SUITE_NAMESPACE)
        pod_processes.kill(agent, "koordlet", "run")
        waiting.until(
            "another agent",
            lambda: agent_restart.container(stage.suite, stage.cluster_client),
            lambda seen: seen["restartCount"] > before and "running" in seen["state"],
        )
        assert stage.quota_millis() == stage.limit_millis() <= lowered

        pod_processes.kill(stage.pod(), "--cpu-cores=0.02")
        waiting.until(
            "another container",
            lambda: stage.pod()["status"]["containerStatuses"][0],
            lambda seen: seen["restartCount"] >= 1 and "running" in seen["state"],
            within_seconds=120,
        )
        assert stage.quota_millis() == stage.limit_millis() <= lowered

        running.provider().stop("kubelet")
        running.provider().start("kubelet")
        witness = workloads.pod("witness", stage.suite.workload, nodes=[stage.node])
        stage.cluster_client.create("Pod", witness, stage.namespace)
        stage.cluster_client.wait_running(stage.namespace, "witness")
        assert stage.quota_millis() == stage.limit_millis() <= lowered


@pytest.mark.long
def test_it_is_restored_step_by_step(stage: Stage) -> None:
    with stage.step_of_prod():
        stage.until_quota("the quota is lower", lambda seen: seen < MID_MILLIS, within_seconds=60)
    stage.configure(100)  # no other load of the machine counts from now on
    begin, seen = time.monotonic(), [stage.limit_millis()]
    assert seen[0] < MID_MILLIS

    def follow() -> int:
        if (limit := stage.limit_millis()) != seen[-1]:
            seen.append(limit)
        return limit

    waiting.until("the original limit", follow, lambda limit: limit == MID_MILLIS, within_seconds=RESTORED_SECONDS + 60)
    print(f"restored within {time.monotonic() - begin:.0f} s: {seen}")
    assert time.monotonic() - begin <= RESTORED_SECONDS
    stage.until_quota("the kernel has it too", lambda quota: quota == MID_MILLIS, within_seconds=30)
    stage.configure(stage.threshold_percent)


def test_the_key_zero_restores_it_step_by_step(stage: Stage) -> None:
    with stage.step_of_prod():
        stage.until_quota("the quota is lower", lambda seen: seen < MID_MILLIS, within_seconds=60)
        time.sleep(5)
        lowered = stage.limit_millis()
        stage.configure(0)
        stage.until_quota("the quota is higher, under load", lambda seen: seen > lowered, within_seconds=60)
        assert stage.limit_millis() < MID_MILLIS
    stage.configure(stage.threshold_percent)


def test_an_uninstallation_restores_it_at_once(stage: Stage) -> None:
    cluster = stage.suite.cluster
    with stage.step_of_prod():
        stage.until_quota("the quota is lower", lambda seen: seen < MID_MILLIS // 2, within_seconds=60)
        cluster.run(
            "helm", "uninstall", RELEASE, f"--namespace={SUITE_NAMESPACE}", "--wait", "--timeout=300s",
            timeout_seconds=330,
        )  # fmt: skip
        assert stage.limit_millis() == MID_MILLIS
        stage.until_quota("the kernel has it too", lambda seen: seen == MID_MILLIS, within_seconds=30)
    stage.suite.install(PERMITTED)
