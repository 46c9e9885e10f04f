"""A cluster that exists already, named by KUBECONFIG.

It is neither started nor ended here, and images reach it through a registry of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.localcluster import access
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.image_archives import Archive


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
        """Return access by the first file of KUBECONFIG, else by ~/.kube/config."""
        named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        return access.reach("existing", Path(named.split(":")[0]))

    def load(self, archives: Sequence[Archive]) -> None:
        """Raise ClusterProblem: this provider has no access to the nodes."""
        files = " ".join(str(archive.file) for archive in archives)
        raise ClusterProblem(
            f"an existing cluster takes images from a registry: push these archives there and name it in the chart's "
            f"image values: {files}"
        )

    def stop(self, component: str) -> None:
        """Raise ClusterProblem: this provider does not control components."""
        raise ClusterProblem(f"cannot stop {component} of an existing cluster; use --provider local or kind")

    def start(self, component: str) -> None:
        """Raise ClusterProblem: this provider does not control components."""
        raise ClusterProblem(f"cannot start {component} of an existing cluster; use --provider local or kind")
