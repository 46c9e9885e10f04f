"""Access to a running cluster, the same for every provider: kubeconfig, kubectl, helm, audit log."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.localcluster import go_binaries
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.layout import FAKE_NODE_LABEL


@dataclass(frozen=True)
class Cluster:
    """Access to a running cluster.

    audit_log: the apiserver's, one JSON event per line, or None where the provider has none. service_names: the folder
    of the name server's files, or None where the cluster has a name server that follows its Services.
    """

    provider: str
    kubeconfig: Path
    kubectl: Path
    helm: Path
    audit_log: Path | None = None
    service_names: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Return KUBECONFIG, and a PATH on which kubectl and helm are found first."""
        folders = dict.fromkeys([str(self.kubectl.parent), str(self.helm.parent), os.environ.get("PATH", "")])
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": ":".join(folders)}

    def run(self, *words: str, stdin: str | None = None, timeout_seconds: float = 120) -> str:
        """Run kubectl, or helm when the first word is `helm`, and return its stdout. Raises ClusterProblem."""
        program, rest = (self.helm, words[1:]) if words[0] == "helm" else (self.kubectl, words)
        return commands.run(
            [program, *rest], stdin=stdin, environment=self.environment, timeout_seconds=timeout_seconds
        )

    def get(self, *words: str) -> Any:
        """Return the parsed output of `kubectl get ... -o json`."""
        return json.loads(self.run("get", *words, "--output=json"))

    def real_nodes(self) -> list[str]:
        """Return the names of the nodes that run pods."""
        listed = self.get("nodes", f"--selector=!{FAKE_NODE_LABEL}")["items"]
        return [node["metadata"]["name"] for node in listed]


def reach(provider: str, kubeconfig: Path, audit_log: Path | None = None, service_names: Path | None = None) -> Cluster:
    """Return a Cluster, with kubectl and helm found or built. Raises ClusterProblem when the kubeconfig is missing."""
    if not kubeconfig.exists():
        raise ClusterProblem(
            f"{kubeconfig}: no such kubeconfig; start a cluster with `python -m tools.localcluster up`"
        )
    return Cluster(
        provider, kubeconfig, go_binaries.client("kubectl"), go_binaries.client("helm"), audit_log, service_names
    )
