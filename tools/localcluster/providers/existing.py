"""A cluster that exists already, named by KUBECONFIG.

It is neither started nor ended here, and images reach its nodes by other ways: from a registry, or loaded by hand. What
the cluster cannot show of itself is taken from two environment variables, where they are set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.localcluster import access
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.image_archives import Archive
from tools.localcluster.layout import FAKE_NODE_LABEL

AUDIT_LOG_VARIABLE = "EXISTING_AUDIT_LOG"
"""Environment variable: the file with the audit log of the apiserver, as `node_files/audit-policy.yaml` selects it."""
HOST_ADDRESS_VARIABLE = "EXISTING_HOST_ADDRESS"
"""Environment variable: the address at which pods reach this machine."""
MOST_LISTED = 50
"""Images in the status of a node, the default of the kubelet."""


class Existing:
    """Provider that uses a cluster and changes nothing of it."""

    def up(self) -> Cluster:
        """Check that the cluster responds."""
        cluster = self.cluster()
        cluster.run("version", "--request-timeout=10s")
        return cluster

    def down(self) -> list[str]:
        """Leave the cluster as it is."""
        return []

    def exists(self) -> bool:
        """Return False: there is nothing to end."""
        return False

    def status(self) -> Mapping[str, str]:
        """Return whether the apiserver responds."""
        try:
            self.up()
        except ClusterProblem as problem:
            return {"kube-apiserver": str(problem)}
        return {"kube-apiserver": "ok"}

    def cluster(self) -> Cluster:
        """Return access by the first file of KUBECONFIG, else by ~/.kube/config. Raises ClusterProblem."""
        named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        log = os.environ.get(AUDIT_LOG_VARIABLE, "")
        if log and not Path(log).is_file():
            raise ClusterProblem(f"{AUDIT_LOG_VARIABLE}={log}: no such file; want the audit log of the apiserver")
        return access.reach("existing", Path(named.split(":")[0]), Path(log) if log else None)

    def load(self, archives: Sequence[Archive]) -> None:
        """Check that every node has the images. Raises ClusterProblem: this provider has no access to the nodes."""
        nodes = self.cluster().get("nodes", f"--selector=!{FAKE_NODE_LABEL}")["items"]
        lacking = missing(archives, nodes)
        if not lacking:
            return
        listed = "; ".join(f"node {node} lacks {', '.join(names)}" for node, names in lacking.items())
        files = " ".join(str(archive.file) for archive in archives)
        raise ClusterProblem(
            f"{listed} (a node lists its {MOST_LISTED} largest images); load these archives onto every node, or push "
            f"them to a registry and name it in the chart's image values: {files}"
        )

    def host_address(self) -> str:
        """Return the address that the environment names. Raises ClusterProblem where it names none."""
        if address := os.environ.get(HOST_ADDRESS_VARIABLE, ""):
            return address
        raise ClusterProblem(
            f"the address of this machine for pods of an existing cluster is unknown; set {HOST_ADDRESS_VARIABLE}"
        )

    def shell(self, name: str, script: str) -> str:
        """Raise ClusterProblem: this provider has no access to the nodes."""
        raise ClusterProblem(f"cannot run `{script}` on node {name} of an existing cluster; use another provider")

    def stop(self, component: str) -> None:
        """Raise ClusterProblem: this provider does not control components."""
        raise ClusterProblem(f"cannot stop {component} of an existing cluster; use --provider local or kind")

    def start(self, component: str) -> None:
        """Raise ClusterProblem: this provider does not control components."""
        raise ClusterProblem(f"cannot start {component} of an existing cluster; use --provider local or kind")


def missing(archives: Sequence[Archive], nodes: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the images that the status of each node does not list, by node."""
    found = {}
    for node in nodes:
        there = {name for image in node["status"].get("images", ()) for name in image.get("names", ())}
        if absent := [each.reference for each in archives if f"docker.io/{each.reference}" not in there]:
            found[node["metadata"]["name"]] = absent
    return found
