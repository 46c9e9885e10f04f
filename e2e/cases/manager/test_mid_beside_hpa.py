"""What a HorizontalPodAutoscaler does with Mid pods, with the real controller and a real metrics-server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from api_types.mid_pods import template
from e2e.support import waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import MID_CPU
from e2e.thirdparty.metrics_server import server
from tools.localcluster.access import Cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]  # cold, it builds metrics-server, for minutes

CPU_MILLIS, BUSY_CORES, SUPPRESSED = 50, "0.04", "10m"
AVERAGE = {"type": "AverageValue", "averageValue": "25m"}
UTILIZATION = {"type": "Utilization", "averageUtilization": 50}
LIMITED, UNLIMITED, PROD = "limited", "unlimited", "prod"
BY_VALUE = "by-value"
METRICS_SECONDS = 240.0
"""An HPA reads metrics every 15 s, and takes no sample of a pod from before it was ready for some time."""


class Hpas:
    """Deployments of one pod, each with an HPA of at most two."""

    def __init__(self, client: ClusterClient, cluster: Cluster, namespace: str) -> None:
        self.client, self._cluster, self._namespace = client, cluster, namespace

    def create(self, name: str, pod: dict[str, Any], target: dict[str, Any]) -> None:
        labels = {"app": name}
        of_pod = {"metadata": {"labels": labels}, "spec": pod["spec"]}
        self.client.create(
            "Deployment",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": of_pod},
            },
            self._namespace,
        )
        hpa = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "namespace": self._namespace},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "minReplicas": 1,
                "maxReplicas": 2,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            },
        }
        self._cluster.run("apply", "--filename=-", stdin=json.dumps(hpa))

    def condition(self, name: str) -> dict[str, str]:
        """Return the condition ScalingActive. Raises LookupError."""
        status = self._cluster.get("hpa", name, "--namespace", self._namespace)["status"]
        for each in status.get("conditions") or ():
            if each["type"] == "ScalingActive":
                return dict(each)
        raise LookupError(f"{name} has no condition yet")

    def replicas(self, name: str) -> int:
        return int(self.client.get("Deployment", name, self._namespace)["spec"]["replicas"])

    def running(self, name: str) -> list[str]:
        pods = self.client.list("Pod", self._namespace, label_selector=f"app={name}")
        return [each["metadata"]["name"] for each in pods if each["status"]["phase"] == "Running"]

    def suppress(self, name: str) -> None:
        """Lower the CPU limit of each running pod, as the agent does on a busy node."""
        resources = {"limits": {"cpu": SUPPRESSED}}
        patch = json.dumps({"spec": {"containers": [{"name": "work", "resources": resources}]}})
        for pod in self.running(name):
            self._cluster.run(
                "patch", "pod", pod, "--namespace", self._namespace, "--subresource=resize", f"--patch={patch}"
            )


def _mid(name: str, suite: Suite, node: str) -> dict[str, Any]:
    return workloads.mid_pod(name, suite.workload, cpu_millis=CPU_MILLIS, memory_mib=32, nodes=[node], cores=BUSY_CORES)


@pytest.fixture(scope="module")
def hpas(
    cluster: Cluster,
    cluster_client: ClusterClient,
    suite: Suite,
    node: str,
    namespace: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Hpas]:
    if cluster.provider not in ("local", "nodes"):
        pytest.skip("serves an API of the whole cluster from this machine: for a cluster of our own only")
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)
    found = Hpas(cluster_client, cluster, namespace)
    with server.serving(cluster, tmp_path_factory.mktemp("metrics-server"), node):
        prod = workloads.pod(
            PROD, suite.workload, *workloads.load(cores=BUSY_CORES), requests={"cpu": f"{CPU_MILLIS}m"}, nodes=[node]
        )
        limited = template.limited(_mid(LIMITED, suite, node))
        found.create(PROD, prod, UTILIZATION)
        found.create(LIMITED, limited, UTILIZATION)
        found.create(UNLIMITED, _mid(UNLIMITED, suite, node), UTILIZATION)
        found.create(BY_VALUE, limited, AVERAGE)
        yield found
        cluster.run("delete", "hpa,deployments", "--all", "--namespace", namespace, "--cascade=foreground", "--wait")


def test_by_utilization_a_prod_deployment_is_scaled(hpas: Hpas) -> None:
    waiting.until("two replicas", lambda: hpas.replicas(PROD), lambda seen: seen == 2, within_seconds=METRICS_SECONDS)


@pytest.mark.parametrize(
    ("name", "reason"), [(LIMITED, "no metrics returned matched known pods"), (UNLIMITED, "missing request for cpu")]
)
def test_by_utilization_a_mid_deployment_is_not_and_its_condition_states_why(
    hpas: Hpas, name: str, reason: str
) -> None:
    found = waiting.until(
        "no metric",
        lambda: hpas.condition(name),
        lambda seen: reason in seen["message"],
        within_seconds=METRICS_SECONDS,
    )
    assert (found["status"], found["reason"]) == ("False", "FailedGetResourceMetric")
    assert hpas.replicas(name) == 1


def test_by_average_value_a_mid_deployment_is_scaled(hpas: Hpas) -> None:
    waiting.until(
        "two replicas", lambda: hpas.replicas(BY_VALUE), lambda seen: seen == 2, within_seconds=METRICS_SECONDS
    )
    pods = waiting.until("both run", lambda: hpas.running(BY_VALUE), lambda seen: len(seen) == 2)
    limits = hpas.client.list("Pod", label_selector=f"app={BY_VALUE}")[0]["spec"]["containers"][0]["resources"]
    assert (limits["requests"]["cpu"], limits["limits"][MID_CPU]) == ("0", str(CPU_MILLIS))
    assert len(set(pods)) == 2


def test_suppressed_pods_use_less_so_one_of_them_is_removed_while_the_work_waits(hpas: Hpas) -> None:
    hpas.suppress(BY_VALUE)
    waiting.until(
        "one replica", lambda: hpas.replicas(BY_VALUE), lambda seen: seen == 1, within_seconds=METRICS_SECONDS
    )
