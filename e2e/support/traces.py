"""What a cluster has of the suite: traces of the manager, objects of the chart, running pods."""

from __future__ import annotations

from e2e.support.installation import CRD
from e2e.support.names import STATUS_ANNOTATION, SUITE_NAMESPACE
from tools.localcluster.access import Cluster

PART = "app.kubernetes.io/part-of=koord-suite"
CLUSTER_WIDE = (
    "clusterroles,clusterrolebindings,priorityclasses,validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "validatingwebhookconfigurations,mutatingwebhookconfigurations"
)
NAMESPACED = (
    "deployments,daemonsets,replicasets,jobs,configmaps,secrets,serviceaccounts,roles,rolebindings,"
    "poddisruptionbudgets,services"
)


def left_by_manager(cluster: Cluster) -> list[str]:
    """Return what is left on nodes, and the NodeMetrics and Leases that are left."""
    left = []
    for node in cluster.get("nodes")["items"]:
        name, status = node["metadata"]["name"], node["status"]
        left += [
            f"{name} {part} {key}" for part in ("capacity", "allocatable") for key in status[part] if "mid-" in key
        ]
        left += [f"{name} {key}" for key in node["metadata"].get("annotations") or {} if key == STATUS_ANNOTATION]
    if cluster.run("get", "crd", CRD, "--ignore-not-found", "--output=name").strip():
        left += [f"NodeMetric {report['metadata']['name']}" for report in cluster.get("nodemetrics")["items"]]
    leases = cluster.get("leases", "--namespace", SUITE_NAMESPACE)["items"]
    return left + [f"Lease {lease['metadata']['name']}" for lease in leases]


def objects(cluster: Cluster) -> str:
    """Return the names of the chart's objects, and of the suite's other objects in its namespace."""
    wide = cluster.run("get", CLUSTER_WIDE, f"--selector={PART}", "--output=name")
    namespaced = cluster.run(
        "get", NAMESPACED, "--all-namespaces", f"--selector={PART}", "--output=name", "--ignore-not-found"
    )
    return wide + namespaced


def running(cluster: Cluster) -> list[str]:
    """Return the pods in the suite's namespace that have not ended."""
    pods = cluster.get("pods", "--namespace", SUITE_NAMESPACE)["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] not in ("Succeeded", "Failed")]
