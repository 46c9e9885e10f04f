"""The cluster that is up: its provider, and access to it. Tests and demos start here.

cluster = running.cluster()              # access.Cluster: kubeconfig, kubectl, helm, audit_log
running.provider().load(archives)        # images onto the nodes
running.provider().stop("kubelet")       # and start("kubelet")
"""

from __future__ import annotations

from tools.localcluster import content_cache
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.providers.registry import PROVIDERS, Provider

REMEMBERED = content_cache.ROOT / "cluster-provider"


def default_name() -> str:
    """Return the provider that `up` chooses: kind where a Docker engine runs, else local."""
    return "kind" if commands.succeeds(["docker", "info"]) else "local"


def remember(name: str) -> None:
    """Record the provider for later commands."""
    REMEMBERED.parent.mkdir(parents=True, exist_ok=True)
    REMEMBERED.write_text(name + "\n")


def forget() -> None:
    """Record that no cluster is up."""
    REMEMBERED.unlink(missing_ok=True)


def name() -> str | None:
    """Return the name of the provider whose cluster is up, or None."""
    return REMEMBERED.read_text().strip() if REMEMBERED.exists() else None


def provider() -> Provider:
    """Return the provider whose cluster is up. Raises ClusterProblem when there is none."""
    remembered = name()
    if remembered is None:
        raise ClusterProblem("no cluster is up; start one with `python -m tools.localcluster up`")
    return PROVIDERS[remembered]


def cluster() -> Cluster:
    """Return access to the cluster that is up. Raises ClusterProblem when there is none."""
    return provider().cluster()
