"""Mid pods run on Mid resources, are counted, and are never rejected by a kubelet with an older node object."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.support import slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient, units
from e2e.support.installation import Suite
from e2e.support.names import MID_CPU, MID_MEMORY
from e2e.support.slo_config import BASE

PODS = 8
MEMORY_MIB = 32
CPU_MILLIS = 20


@pytest.fixture(scope="module")
def offered(cluster_client: ClusterClient, suite: Suite, node: str) -> tuple[int, int]:
    """Return Mid of the node."""
    return waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)


def _names(prefix: str) -> list[str]:
    return [f"{prefix}-{index}" for index in range(PODS)]


def _create(cluster_client: ClusterClient, suite: Suite, namespace: str, node: str, prefix: str) -> None:
    for name in _names(prefix):
        pod = workloads.mid_pod(name, suite.workload, cpu_millis=CPU_MILLIS, memory_mib=MEMORY_MIB, nodes=[node])
        cluster_client.create("Pod", pod, namespace)


def _delete(cluster_client: ClusterClient, namespace: str, prefix: str) -> None:
    for name in _names(prefix):
        cluster_client.delete("Pod", name, namespace, grace_seconds=1)
    waiting.until("the pods are gone", lambda: cluster_client.list("Pod", namespace), lambda pods: not pods)


def _counted(cluster_client: ClusterClient, node: str) -> tuple[int, int]:
    mid = cluster_client.node_metric(node)["status"]["allocated"]["mid"]
    return units(mid[MID_CPU]), units(mid[MID_MEMORY])


def test_mid_pods_run_as_best_effort_and_are_counted(
    cluster_client: ClusterClient, suite: Suite, node: str, namespace: str, offered: tuple[int, int]
) -> None:
    assert offered[0] >= PODS * CPU_MILLIS
    assert offered[1] >= PODS * MEMORY_MIB * workloads.MEBIBYTE
    waiting.until(
        "no pod of an earlier case counted", lambda: _counted(cluster_client, node), lambda seen: seen == (0, 0)
    )
    _create(cluster_client, suite, namespace, node, "first")
    cluster_client.wait_running(namespace, *_names("first"))
    pod = cluster_client.get("Pod", "first-0", namespace)
    assert pod["spec"]["priority"] == 7000
    assert pod["status"]["qosClass"] == "BestEffort"
    wanted = PODS * CPU_MILLIS, PODS * MEMORY_MIB * workloads.MEBIBYTE
    waiting.until("their requests in the report", lambda: _counted(cluster_client, node), lambda seen: seen == wanted)


def test_the_report_shows_them_as_mid(cluster_client: ClusterClient, node: str, namespace: str) -> None:
    def classes() -> set[tuple[str, str]]:
        listed = cluster_client.node_metric(node)["status"]["podsMetric"]
        return {(each["priority"], each["qos"]) for each in listed if each["namespace"] == namespace}

    waiting.until("the pods in podsMetric", classes, lambda seen: seen == {("koord-mid", "BE")})


def test_a_mid_pod_that_is_too_large_stays_pending_and_its_event_states_why(
    cluster_client: ClusterClient, suite: Suite, node: str, namespace: str, offered: tuple[int, int]
) -> None:
    pod = workloads.mid_pod("too-large", suite.workload, cpu_millis=offered[0] * 3 + 1000, memory_mib=1, nodes=[node])
    cluster_client.create("Pod", pod, namespace)
    events = waiting.until(
        "an event", lambda: cluster_client.events_of("too-large", namespace, "FailedScheduling"), within_seconds=30
    )
    assert MID_CPU in events[0]["message"], events[0]["message"]
    assert cluster_client.pod_phase("too-large", namespace) == "Pending"
    cluster_client.delete("Pod", "too-large", namespace)


def test_pending_mid_pods_run_as_soon_as_mid_appears(
    cluster_client: ClusterClient, suite: Suite, node: str, namespace: str, configure: Callable[..., None]
) -> None:
    _delete(cluster_client, namespace, "first")
    configure(slo_config.changed(enable=False))
    waiting.until("no Mid on the node", lambda: cluster_client.mid(node), lambda seen: seen is None)
    _create(cluster_client, suite, namespace, node, "waiting")
    waiting.until(
        "all of them are refused for now",
        lambda: [cluster_client.events_of(name, namespace, "FailedScheduling") for name in _names("waiting")],
        all,
    )
    configure(BASE)
    phases = waiting.until(
        "all of them have left Pending",
        lambda: [cluster_client.pod_phase(name, namespace) for name in _names("waiting")],
        lambda seen: "Pending" not in seen,
        every_seconds=0.2,
    )
    assert phases == ["Running"] * PODS
