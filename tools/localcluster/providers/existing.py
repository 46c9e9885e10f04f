"""Somebody else's cluster, named by KUBECONFIG.

It is neither started nor ended here, and images reach it through a registry of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.images import building
from tools.localcluster import access
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem


class Existing:
    """See the module."""

    def up(self) -> Cluster:
        """See Provider; here only checks that the cluster answers."""
        cluster = self.cluster()
        cluster.run("version", "--request-timeout=10s")
        return cluster

    def down(self) -> list[str]:
        """See Provider; here leaves the cluster alone."""
        return []

    def exists(self) -> bool:
        """See Provider."""
        return False

    def status(self) -> Mapping[str, str]:
        """See Provider."""
        try:
            self.up()
        except ClusterProblem as problem:
            return {"kube-apiserver": str(problem)}
        return {"kube-apiserver": "ok"}

    def cluster(self) -> Cluster:
        """See Provider."""
        named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        return access.reach("existing", Path(named.split(":")[0]))

    def builder(self) -> building.Builder:
        """See Provider."""
        return building.builder()

    def load(self, archives: Sequence[building.Archive]) -> None:
        """See Provider."""
        files = " ".join(str(archive.file) for archive in archives)
        raise ClusterProblem(
            f"an existing cluster takes images from a registry: push these archives there and name it in the chart's "
            f"image values: {files}"
        )

    def stop(self, component: str) -> None:
        """See Provider."""
        raise ClusterProblem(f"{component} of an existing cluster is not ours to stop; use --provider local or kind")

    def start(self, component: str) -> None:
        """See Provider."""
        raise ClusterProblem(f"{component} of an existing cluster is not ours to start; use --provider local or kind")
