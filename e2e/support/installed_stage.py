"""A cluster with the suite and an empty namespace, for programs that run outside pytest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from e2e.support import node_thresholds, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from tools.images import loading
from tools.localcluster import __main__ as cluster_command
from tools.localcluster import remembered
from tools.localcluster import running as running_cluster
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem


class Stage(NamedTuple):
    """What such a program works with."""

    cluster: Cluster
    cluster_client: ClusterClient
    suite: Suite
    node: str
    """The first node with a kubelet."""
    namespace: str


@contextlib.contextmanager
def running(namespace: str, *flags: str) -> Iterator[Stage]:
    """Start the cluster if none is up, install the suite with more flags of helm, wait for Mid, and undo all of it.

    A suite that is uninstalled before the end stays so. Raises ClusterProblem.
    """
    was_up = remembered.name() is not None
    if cluster_command.main(["up"]):
        raise ClusterProblem("the cluster did not start, see the error above")
    try:
        with contextlib.closing(ClusterClient(running_cluster.cluster().kubeconfig)) as cluster_client:
            yield from _installed(cluster_client, namespace, flags)
    finally:
        if not was_up:
            cluster_command.main(["down"])


def _installed(cluster_client: ClusterClient, namespace: str, flags: tuple[str, ...]) -> Iterator[Stage]:
    cluster = running_cluster.cluster()
    suite = Suite(cluster, loading.load())
    earlier = suite.revision()
    cluster_client.create("Namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    suite.install(*flags)
    node = cluster.real_nodes()[0]
    node_thresholds.set_threshold(cluster_client, node, node_thresholds.NEVER_HOT)
    slo_config.write(cluster_client, slo_config.BASE)
    try:
        waiting.until(f"an account in {namespace}", lambda: cluster_client.find("ServiceAccount", "default", namespace))
        waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=180)
        yield Stage(cluster, cluster_client, suite, node, namespace)
    finally:
        cluster_client.delete("Namespace", namespace)
        waiting.until(
            f"{namespace} is gone",
            lambda: cluster_client.find("Namespace", namespace) is None,
            within_seconds=120,
        )
        node_thresholds.set_threshold(cluster_client, node, None)
        if suite.revision():
            suite.roll_back(earlier) if earlier else suite.uninstall()
