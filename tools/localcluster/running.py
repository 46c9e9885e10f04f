"""The cluster that is up: its provider, and access to it. Tests and demos start here.

cluster = running.cluster()              # access.Cluster: kubeconfig, kubectl, helm, audit_log
running.provider().load(archives)        # images onto the nodes
running.provider().stop("kubelet")       # and start("kubelet")
"""

from __future__ import annotations

import platform

from tools.localcluster import remembered
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.providers.registry import PROVIDERS, Provider


def default_name() -> str:
    """Return the provider that `up` chooses: kind where a Docker engine runs, else nodes, which is for x86-64 only."""
    if commands.succeeds(["docker", "info"]):
        return "kind"
    return "nodes" if platform.machine() == "x86_64" else "local"


def provider() -> Provider:
    """Return the provider whose cluster is up. Raises ClusterProblem when there is none."""
    name = remembered.name()
    if name is None:
        raise ClusterProblem("no cluster is up; start one with `python -m tools.localcluster up`")
    return PROVIDERS[name]


def cluster() -> Cluster:
    """Return access to the cluster that is up. Raises ClusterProblem when there is none."""
    return provider().cluster()
