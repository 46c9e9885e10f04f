"""Restarts of the manager, and nodes as an earlier manager left them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, Final

from e2e.support import waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import MID_CPU, MID_MEMORY, STATUS_ANNOTATION, SUITE_NAMESPACE
from tools.localcluster.access import Cluster

MANAGER: Final = "koord-manager"
OFFERED: Final = {MID_CPU: "2000", MID_MEMORY: "1073741824"}
withheld: Final[set[str]] = set()
"""Resources whose rules were taken out in this session: requests for them were forbidden."""


def leading_pod(cluster_client: ClusterClient) -> str:
    """Return the name of the pod that holds the Lease, empty without one."""
    holder = cluster_client.get("Lease", MANAGER, SUITE_NAMESPACE)["spec"].get("holderIdentity") or ""
    return str(holder.rpartition("_")[0])


def restart(cluster_client: ClusterClient, suite: Suite) -> None:
    """Kill both replicas, and wait until another one leads."""
    before = set(suite.pods(MANAGER))
    for pod in before:
        cluster_client.delete("Pod", pod, SUITE_NAMESPACE, grace_seconds=0)
    waiting.until(
        "another manager leads", lambda: leading_pod(cluster_client), lambda pod: pod and pod not in before
    )  # fmt: skip


def offer(cluster_client: ClusterClient, node: str, sample: str) -> None:
    """Put Mid resources on a node, as an earlier manager did after a sample of this time."""
    status = {"time": sample, "reason": "Calculated", "status": "True", "sample": sample}
    annotations = {STATUS_ANNOTATION: json.dumps(status)}
    body = {"metadata": {"annotations": annotations}, "status": {"capacity": OFFERED, "allocatable": OFFERED}}
    cluster_client.patch_status("Node", node, body)  # in one write, as the manager does


@contextlib.contextmanager
def without_rule(cluster: Cluster, kind: str, name: str, resource: str, *where: str) -> Iterator[None]:
    """Take every rule for a resource out of a Role or ClusterRole, and put the rules back at the end."""
    before: list[dict[str, Any]] = cluster.get(kind, name, *where)["rules"]
    left = [rule for rule in before if resource not in rule["resources"]]
    withheld.add(resource)
    _set_rules(cluster, kind, name, left, where)
    try:
        yield
    finally:
        _set_rules(cluster, kind, name, before, where)


def _set_rules(cluster: Cluster, kind: str, name: str, rules: list[dict[str, Any]], where: tuple[str, ...]) -> None:
    cluster.run("patch", kind, name, *where, "--type=merge", f"--patch={json.dumps({'rules': rules})}")
