"""The Mid resources of the node are those of the formula, and follow the Prod pods."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from e2e.support import mid_formula, waiting, workloads
from e2e.support.cluster_client import ClusterClient, units
from e2e.support.installation import Suite
from e2e.support.names import MID_CPU, MID_MEMORY
from tools.localcluster.access import Cluster

MIB = workloads.MEBIBYTE
POD = "modest"
MORE_MIB = 600


def test_mid_follows_from_the_published_objects(cluster_client: ClusterClient, suite: Suite, node: str) -> None:
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)
    mid_cpu, mid_memory = mid_formula.wait_published(cluster_client, node).offered
    assert mid_cpu > 0
    assert mid_memory > 0


def test_the_terms_of_the_annotation_give_the_published_value(cluster_client: ClusterClient, node: str) -> None:
    mid_status = cluster_client.mid_status(node)
    assert mid_status is not None
    assert mid_status["reason"] == "Calculated"
    lines = mid_status["resources"]
    assert set(lines) == {MID_CPU, MID_MEMORY}
    for line in lines.values():
        charged = line["allocatedProd"] * line["reclaimRatioPercent"] // 100
        assert line["reclaimable"] == max(0, min(charged, line["allocatable"]) - line["peakProd"])
        requested = line["allocatedProd"] + line.get("allocatedBelowProd", 0)
        assert line["unallocated"] == max(line["allocatable"] - requested, 0)
        offered = min(line["reclaimable"], line["cap"]) + line["unallocatedShare"]
        assert line["calculated"] == min(offered, line["unused"])
        assert line["published"] == max(line["calculated"], line["floor"])


class Growth(NamedTuple):
    """Mid memory before a Prod pod was created, the pod's request, and Mid of the formula with the pod."""

    before: int
    request_mib: int
    due: int


@pytest.fixture(scope="module")
def growth(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> Growth:
    """Add a Prod pod that requests a good part of the node's memory and uses next to none of it."""
    published = mid_formula.wait_published(cluster_client, node)
    status, policy = published.node_metric["status"], published.node_metric["spec"]["midColocationPolicy"]
    allocatable = units(published.node["status"]["allocatable"]["memory"])
    request_mib = allocatable * 2 // 5 // MIB
    due = mid_formula.evaluate(
        policy=policy,
        prod=units(status["allocated"]["prod"]["memory"]) + request_mib * MIB,
        below=units(status["allocated"].get("belowProd", {}).get("memory", "0")),
        mid=units(status["allocated"]["mid"][MID_MEMORY]),
        peak=units(status["prodPeakMetric"]["resource"]["resources"]["memory"]),
        allocatable=allocatable,
        unused=mid_formula.unused(published.node, published.node_metric, "memory", units),
        threshold="midMemoryThresholdPercent",
    )
    requests = {"cpu": "100m", "memory": f"{request_mib}Mi"}
    pod = workloads.pod(POD, suite.workload, *workloads.load(memory_mib=20), requests=requests, nodes=[node])
    cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, POD)
    return Growth(published.offered[1], request_mib, int(due))


def _mid_memory(cluster_client: ClusterClient, node: str) -> int:
    offered = cluster_client.mid(node)
    return offered[1] if offered else 0


def test_mid_grows_by_the_unused_request_of_a_new_prod_pod(
    cluster_client: ClusterClient, node: str, growth: Growth
) -> None:
    assert growth.due > growth.before
    # Half of it is a clear signal, and leaves room for other changes on the node meanwhile.
    least = (growth.before + growth.due) // 2
    waiting.until(
        "more Mid memory", lambda: _mid_memory(cluster_client, node), lambda seen: seen > least, within_seconds=120
    )
    mid_formula.wait_published(cluster_client, node)


@pytest.mark.usefixtures("growth")
def test_mid_shrinks_when_the_load_of_a_prod_pod_rises(
    cluster_client: ClusterClient, cluster: Cluster, node: str, namespace: str
) -> None:
    full = _mid_memory(cluster_client, node)
    workloads.take_memory(cluster, namespace, POD, MORE_MIB)
    waiting.until(
        "less Mid memory",
        lambda: _mid_memory(cluster_client, node),
        lambda seen: 0 < seen < full - MORE_MIB * MIB // 4,
        within_seconds=150,
    )
    mid_formula.wait_published(cluster_client, node)
